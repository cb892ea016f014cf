# A program with three prompts: what it asks on its standard output is answered on a card.
target=$1
ask() {
  echo "NEED_USER_INPUT $1"
  IFS= read -r answer || exit 3
}
echo 'PROGRESS {"summary": "Looking at what has changed · 正在检查改动"}'
ask '{"interaction_request_id": "how", "answer_type": "choice", "prompt": "Rebuild all of it? / 全部重建吗？", "summary": "12,480 documents · 12,480 个文档", "options": [{"value": "all", "label": "All of it / 全部"}, {"value": "changed", "label": "Only what changed / 仅改动部分"}]}'
how=$answer
echo "rebuilding $how of $target"
echo 'PROGRESS {"summary": "Half of it is rebuilt · 已重建一半"}'
ask '{"interaction_request_id": "name", "answer_type": "text", "prompt": "What should the new index be called? / 新索引叫什么名字？"}'
name=$answer
ask '{"interaction_request_id": "note", "answer_type": "text", "prompt": "What should be noted in the log? / 日志里写些什么？"}'
echo "$name: $answer"
echo 'PROGRESS {"summary": "The index is rebuilt · 索引已重建"}'
