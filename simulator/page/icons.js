// Icons of our own, drawn as strokes on a 24 × 24 grid.
import { svg } from "./dom.js";

const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  sun: ["M12 8a4 4 0 1 0 0 8a4 4 0 1 0 0-8z", "M12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4"],
  moon: "M20 14.2A8.2 8.2 0 0 1 9.8 4a8.2 8.2 0 1 0 10.2 10.2z",
  auto: ["M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17z", "M12 3.5v17M12 7l6.5-1M12 12h8.3M12 17l6.5 1"],
  people: ["M9 5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7z", "M2.5 19.5c.6-3.6 3.2-5.5 6.5-5.5s5.9 1.9 6.5 5.5", "M16 5.6a3.2 3.2 0 0 1 0 5.9M18.2 14.6c1.9.8 3 2.5 3.4 4.9"],
  person: ["M12 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8z", "M4.5 20c.8-4 3.7-6 7.5-6s6.7 2 7.5 6"],
  robot: ["M5 9h14a1.5 1.5 0 0 1 1.5 1.5v7A1.5 1.5 0 0 1 19 19H5a1.5 1.5 0 0 1-1.5-1.5v-7A1.5 1.5 0 0 1 5 9z", "M12 9V5M9 13v2M15 13v2M10.5 4.5h3"],
  check: "M5 12.5l4.5 4.5L19 7.5",
  done: ["M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17z", "M8 12.3l2.9 2.9L16 9.5"],
  info: ["M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17z", "M12 11v5.5M12 7.6v.2"],
  error: ["M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17z", "M9 9l6 6M15 9l-6 6"],
  warning: ["M12 4L2.8 19.5h18.4z", "M12 10v4.5M12 17v.2"],
  clock: ["M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17z", "M12 7.5V12l3.2 2"],
  chevron: "M9 5.5l6.5 6.5L9 18.5",
  down: "M5.5 9l6.5 6.5L18.5 9",
  arrow: "M12 4.5v15M5.5 13l6.5 6.5 6.5-6.5",
  external: ["M13.5 4.5h6v6M19.5 4.5l-8 8", "M17.5 14v4a1.5 1.5 0 0 1-1.5 1.5H6A1.5 1.5 0 0 1 4.5 18V8A1.5 1.5 0 0 1 6 6.5h4"],
  download: "M12 4v11M7 10.5l5 5 5-5M4.5 20h15",
  file: ["M6.5 3.5h7.5l4.5 4.5v11a1.5 1.5 0 0 1-1.5 1.5H6.5A1.5 1.5 0 0 1 5 19V5a1.5 1.5 0 0 1 1.5-1.5z", "M13.5 3.5V8.5h5M8.5 13h7M8.5 16.5h5"],
  image: ["M4.5 4.5h15a1 1 0 0 1 1 1v13a1 1 0 0 1-1 1h-15a1 1 0 0 1-1-1v-13a1 1 0 0 1 1-1z", "M4 17l5-5 4 4 3-3 4 4M15.5 8.2v.3"],
  reply: "M10 6l-6 5.5 6 5.5v-3.5c5 0 8 1.2 10 4.5-.5-5-3.5-8.3-10-8.7z",
  bolt: "M13 2.8L5 13.5h6l-1 7.7 8-10.7h-6z",
  lock: ["M6.5 10.5h11a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1h-11a1 1 0 0 1-1-1v-8a1 1 0 0 1 1-1z", "M8.5 10.5V8a3.5 3.5 0 0 1 7 0v2.5"],
  chat: "M4.5 5h15a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H12l-4.5 3.5V17h-3a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1z",
  gear: ["M12 9a3 3 0 1 0 0 6a3 3 0 1 0 0-6z", "M12 3.5v2.5M12 18v2.5M3.5 12H6M18 12h2.5M6 6l1.8 1.8M16.2 16.2L18 18M6 18l1.8-1.8M16.2 7.8L18 6"],
  code: "M8.5 7L3.5 12l5 5M15.5 7l5 5-5 5",
  forbid: ["M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17z", "M6 6l12 12"],
  send: ["M20.5 3.5L10.5 13.5", "M20.5 3.5l-6 17-4-7-7-4z"],
  question: ["M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17z", "M9.5 9.6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.9M12 16.4v.2"],
  dot: "M12 8a4 4 0 1 0 0 8a4 4 0 1 0 0-8z",
};

export function icon(name, options) {
  return svg(PATHS[name] ?? PATHS.dot, options);
}

// Feishu's library has some two thousand tokens; what a token is about shows in its words.
const TOKENS = [
  [/maybe|question/, "question"], [/forbid|ban|stop/, "forbid"], [/warn|alert|risk/, "warning"], [/error|close|no_|fail/, "error"],
  [/yes|done|succeed|success|check|approval|pass/, "done"], [/time|clock|history|wait|date|calendar/, "clock"],
  [/lock|safe|security|key|privacy/, "lock"], [/robot|bot|ai/, "robot"], [/group|member|team|contacts/, "people"],
  [/person|user|avatar/, "person"], [/file|doc|attachment|bitable|sheet/, "file"], [/image|pic/, "image"],
  [/link|jump|share|external|open/, "external"], [/code|terminal|api/, "code"], [/setting|tool|platform/, "gear"],
  [/download/, "download"], [/down|expand/, "down"], [/right/, "chevron"], [/flash|bolt|thunder/, "bolt"],
  [/chat|comment|message/, "chat"], [/send/, "send"], [/info|help|tips/, "info"],
];

export function tokenIcon(token, options) {
  const match = TOKENS.find(([words]) => words.test(String(token)));
  return icon(match ? match[1] : "dot", options);
}
