// A press and its release make one click only on the same element: what comes in meanwhile is drawn after the release.

const LONGEST = 1000; // milliseconds; a press that is dragged out of the window, or opens a list, may never be released

let released = Promise.resolve();

/** Resolves as soon as nobody presses anything; draw right after it. */
export const unpressed = () => released;

export function watchPresses() {
  addEventListener("pointerdown", begin, { capture: true });
}

function begin() {
  released = new Promise((resolve) => {
    const end = () => setTimeout(resolve); // later: the click comes after the release
    addEventListener("pointerup", end, { capture: true, once: true });
    addEventListener("pointercancel", end, { capture: true, once: true });
    setTimeout(resolve, LONGEST);
  });
}
