import t from 'tap'
import { printableJson } from '../../../../src/kas/cli/text-table.ts'

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
