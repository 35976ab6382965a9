import t from 'tap'
import { hasControls, printable, printableJson } from '../../../src/lib/printable.ts'

t.test('JSON reads as the same and steers no terminal', (t) => {
  const value = { text: 'a\u009b2J\u202e\u007f\n\u001b', list: [1] }
  for (const indent of [undefined, 2]) {
    const text = printableJson(value, indent)
    t.notMatch(text, /[\u007f-\u009f\u202a-\u202e]/)
    t.strictSame(JSON.parse(text), value)
  }
  t.match(printableJson(value, 2), /\n {2}"list"/)
  t.end()
})

t.test('what steers a terminal is one sign, all else stays', async (t) => {
  t.equal(printable('a\u001b[2J\u009b2J\r\n\u2028\u202e\u2067b\u007f'), 'a?[2J?2J?????b?')
  for (const text of ['größe 日本 \u{1f600}', 'a b', '\u200f', '']) {
    t.equal(printable(text), text)
    t.notOk(hasControls(text), text)
  }
  for (const text of ['\0', 'a\n', '\u0085', 'a\u2066']) t.ok(hasControls(text), JSON.stringify(text))
})
