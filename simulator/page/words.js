// What the page itself says, in both languages, and the choice among a card's own languages.
import { state } from "./state.js";

const WORDS = {
  title: { zh: "飞书模拟器", en: "Feishu simulator" },
  subtitle: { zh: "本机 · 不连外网", en: "local, nothing leaves this machine" },
  skip: { zh: "跳到消息", en: "Skip to messages" },
  you_are: { zh: "你是", en: "You are" },
  requester: { zh: "申请人", en: "Requester" },
  approver: { zh: "审批人", en: "Approver" },
  outsider: { zh: "旁观者", en: "Outsider" },
  operator: { zh: "值班人员", en: "Operator" },
  language: { zh: "语言", en: "Language" },
  look: { zh: "外观", en: "Look" },
  light: { zh: "浅色", en: "Light" },
  dark: { zh: "深色", en: "Dark" },
  auto: { zh: "跟随系统", en: "Follow the system" },
  chats: { zh: "消息", en: "Chats" },
  open_chats: { zh: "打开会话列表", en: "Open the list of chats" },
  close_chats: { zh: "关闭会话列表", en: "Close the list of chats" },
  no_messages: { zh: "还没有消息", en: "No messages yet" },
  members: { zh: "{n} 名成员", en: "{n} members" },
  private_chat: { zh: "与机器人的单聊", en: "Private chat with the bot" },
  without_bot: { zh: "机器人不在这个群里", en: "The bot is not in this group" },
  bot: { zh: "机器人", en: "Bot" },
  unread: { zh: "{n} 条未读", en: "{n} unread" },
  mentioned: { zh: "[有人@我]", en: "[@ You]" },
  everyone: { zh: "所有人", en: "Everyone" },
  today: { zh: "今天", en: "Today" },
  yesterday: { zh: "昨天", en: "Yesterday" },
  updated_once: { zh: "已更新", en: "updated" },
  updated: { zh: "已更新 {n} 次", en: "updated {n} times" },
  reply_to: { zh: "回复", en: "Reply to" },
  newer: { zh: "{n} 条新消息", en: "{n} new" },
  file: { zh: "[文件] {name}", en: "[File] {name}" },
  card: { zh: "[卡片]", en: "[Card]" },
  download: { zh: "下载", en: "Download" },
  preview: { zh: "预览", en: "Preview" },
  preview_cut: {
    zh: "仅显示开头，共 {size}。请下载查看全部。",
    en: "Only the beginning is shown, of {size} in all. Download it to read the rest.",
  },
  preview_failed: { zh: "暂时无法预览", en: "No preview at the moment" },
  image: { zh: "图片", en: "Image" },
  unknown_person: { zh: "未知用户", en: "Unknown user" },
  unsupported: { zh: "不支持的组件：{tag}", en: "Unsupported component: {tag}" },
  unsupported_type: { zh: "不支持的消息类型：{type}", en: "Unsupported message type: {type}" },
  broken_card: { zh: "这张卡片无法显示：{reason}", en: "This card cannot be shown: {reason}" },
  confirm: { zh: "确定", en: "Confirm" },
  cancel: { zh: "取消", en: "Cancel" },
  choose: { zh: "请选择", en: "Please choose" },
  type_here: { zh: "请输入", en: "Please type" },
  required_missing: { zh: "有必填项未填写", en: "A required field is empty" },
  page_of: { zh: "第 {n}/{total} 页", en: "Page {n} of {total}" },
  earlier: { zh: "上一页", en: "Previous page" },
  later: { zh: "下一页", en: "Next page" },
  share: { zh: "发送文件", en: "Send a file" },
  share_hint: { zh: "也可以把文件拖到会话里", en: "Or drop files onto the conversation" },
  not_sent: { zh: "{name} 没有发送成功（HTTP {status}）", en: "{name} was not sent (HTTP {status})" },
  not_delivered: { zh: "已发送，但机器人没有收到：{error}", en: "Sent, but the bot did not get it: {error}" },
  sending: { zh: "正在提交", en: "Sending" },
  connecting: { zh: "连接已断开，正在重新连接……", en: "Connection lost, reconnecting…" },
  empty_title: { zh: "这里还很安静", en: "It is quiet here" },
  empty_text: {
    zh: "发起一个示例申请，看看审批卡片怎样送达、点击之后怎样更新。",
    en: "File a sample request and watch its approval card arrive, be clicked, and change.",
  },
  empty_plain: { zh: "机器人发来的消息会出现在这里。", en: "Messages from the bot will appear here." },
  empty_ask: {
    zh: "为你的工具发起一个申请，看看审批卡片怎样送达、点击之后怎样更新。",
    en: "File a call to one of your tools and watch its approval card arrive, be clicked, and change.",
  },
  shortcuts: { zh: "示例申请", en: "Sample requests" },
  links: { zh: "链接", en: "Links" },
  say_here: { zh: "发消息给机器人，例如：有什么等我处理？", en: "Write to the bot, for instance: what waits for me?" },
  say: { zh: "发送", en: "Send" },
  say_failed: { zh: "消息没有送达应用", en: "The message did not reach the app" },
  ask_for: { zh: "填写申请…", en: "File any call…" },
  tool: { zh: "工具", en: "Tool" },
  file_it: { zh: "发起申请", en: "File it" },
  no_tools: { zh: "还没有注册任何工具", en: "No tool has been published yet" },
  as_json: { zh: "JSON", en: "JSON" },
  optional: { zh: "选填", en: "optional" },
  yes: { zh: "是", en: "yes" },
  no: { zh: "否", en: "no" },
  bad_field: { zh: "“{name}”格式有误，应为：{kind}", en: "“{name}” is not a valid {kind}" },
  integer: { zh: "整数", en: "integer" },
  number: { zh: "数字", en: "number" },
  shortcut_ended: { zh: "{label}：{ending}{detail}", en: "{label}: {ending}{detail}" },
  shortcut_done: { zh: "申请已发起", en: "Request filed" },
  shortcut_failed: { zh: "申请没有成功（HTTP {status}）{detail}", en: "The request failed (HTTP {status}){detail}" },
  click_error: { zh: "操作没有成功，请稍后再试（code: {code}）", en: "That did not work, please try again later (code: {code})" },
  platform_error: { zh: "{text}（code: {code}）", en: "{text} (code: {code})" },
  click_gone: { zh: "这个按钮已不在卡片上", en: "That action is no longer on the card" },
  not_member: { zh: "{name} 不在任何会话中", en: "{name} is in no chat" },
};

export function t(key, values = {}) {
  const text = WORDS[key]?.[state.lang] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export const has = (key) => key in WORDS;

// Feishu names languages zh_cn and en_us; ours are zh and en.
const CARD_LANGUAGES = { zh: ["zh_cn", "zh-cn", "zh"], en: ["en_us", "en-us", "en"] };

function localized(translations) {
  if (!translations || typeof translations !== "object") return undefined;
  return CARD_LANGUAGES[state.lang].map((key) => translations[key]).find((text) => typeof text === "string");
}

/** The text of a card's text object in the reader's language. */
export function textOf(object) {
  if (typeof object === "string") return object;
  if (!object || typeof object !== "object") return "";
  return localized(object.i18n_content) ?? (typeof object.content === "string" ? object.content : "");
}

/** A toast's text in the reader's language. */
export const toastText = (toast) => localized(toast.i18n) ?? toast.content ?? "";

/** A label from the backend's configuration: a string or {zh, en}. */
export function labelOf(label) {
  if (label && typeof label === "object") return localized(label) ?? Object.values(label)[0] ?? "";
  return label ?? "";
}

export const locale = () => (state.lang === "zh" ? "zh-CN" : "en-US");

export function clockTime(ms) {
  return new Date(ms).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit", hour12: false });
}

const dayNumber = (date) => Math.round(new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime() / 864e5);

export function dayLabel(ms) {
  const date = new Date(ms);
  const age = dayNumber(new Date()) - dayNumber(date);
  if (age === 0) return t("today");
  if (age === 1) return t("yesterday");
  const sameYear = date.getFullYear() === new Date().getFullYear();
  return date.toLocaleDateString(locale(), { month: "short", day: "numeric", ...(sameYear ? {} : { year: "numeric" }) });
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  if (size < 1024 ** 2) return `${(size / 1024).toFixed(1)} KB`;
  return `${(size / 1024 ** 2).toFixed(1)} MB`;
}
