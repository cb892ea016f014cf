// A press and its release make one click only on the same element: what comes in meanwhile is drawn after the click.

const LONGEST = 10_000; // milliseconds; then it is drawn all the same
const CLICK_AFTER = 400; // a finger's click comes some time after the release, or not at all
// A release outside of the page, or on a list that the press opened, is not told: whatever comes next tells it.
const TELLING = ["pointerup", "pointercancel", "pointermove", "keydown", "keyup", "blur"];
const HELD_MEANWHILE = ["Shift", "Control", "Alt", "Meta"];

let released = Promise.resolve();

/** Resolves as soon as nobody presses anything; draw right after it. */
export async function unpressed() {
  for (let waited; waited !== released; ) await (waited = released); // the next press may have begun
}

export function watchPresses() {
  addEventListener("pointerdown", begin, { capture: true });
  addEventListener("keydown", (event) => event.key === " " && !event.repeat && begin(event), { capture: true });
}

function begin(pressed) {
  const watching = new AbortController();
  released = new Promise((resolve) => {
    const end = (event) => {
      if (event && !isOver(event, pressed)) return;
      watching.abort();
      if (event?.type !== "pointerup" || event.pointerType === "mouse") return setTimeout(resolve); // after the click
      addEventListener("click", () => setTimeout(resolve), { capture: true, once: true });
      setTimeout(resolve, CLICK_AFTER);
    };
    for (const name of TELLING) addEventListener(name, end, { capture: true, signal: watching.signal });
    setTimeout(end, LONGEST);
  });
}

function isOver(event, pressed) {
  if (event === pressed) return false;
  if (event.type === "pointermove") return event.buttons === 0 && pressed.type !== "keydown"; // else it is dragged
  if (event.type === "keyup") return pressed.type === "keydown";
  if (event.type === "keydown") return !event.repeat && !HELD_MEANWHILE.includes(event.key);
  return event.type !== "blur" || event.target === window; // a field's: the press took the focus from it
}
