import t from 'tap'
import { isNamedUser } from '../../../../src/kas/access-log/named-user.ts'

const ada = { id: 5n, name: 'ada' }
/** its owner chose this name */
const five = { id: 6n, name: '5' }

t.test('a number is an id alone, @ stands before a name', async (t) => {
  for (const [text, found] of Object.entries({
    '5': [ada],
    '6': [five],
    '05': [],
    ada: [ada],
    ADA: [ada],
    '@ada': [ada],
    '@5': [five],
    '@': [],
    ad: [],
    '5 ': [],
  }))
    t.strictSame([ada, five].filter(isNamedUser([text])), found, text)
  t.strictSame([ada, five].filter(isNamedUser(['@5', 'ada'])), [ada, five], 'any of several')
  t.strictSame([ada, five].filter(isNamedUser([])), [])
})
