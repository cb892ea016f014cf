// A press and its release make one click only on the same element: what comes in meanwhile is drawn after the release.

const LONGEST = 10_000; // milliseconds; then it is drawn all the same
// A release outside of the page, or on a list that the press opened, is not told: whatever comes next tells it.
const TELLING = ["pointerup", "pointercancel", "pointermove", "keydown", "blur"];

let released = Promise.resolve();

/** Resolves as soon as nobody presses anything; draw right after it. */
export const unpressed = () => released;

export function watchPresses() {
  addEventListener("pointerdown", begin, { capture: true });
}

function begin() {
  const watching = new AbortController();
  released = new Promise((resolve) => {
    const end = (event) => {
      if (event?.type === "pointermove" && event.buttons !== 0) return; // it is dragged
      if (event?.type === "blur" && event.target !== window) return; // a field's: the press took the focus from it
      watching.abort();
      setTimeout(resolve); // later: the click comes after the release
    };
    for (const name of TELLING) addEventListener(name, end, { capture: true, signal: watching.signal });
    setTimeout(end, LONGEST);
  });
}
