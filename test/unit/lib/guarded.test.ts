import t from 'tap'
import { guarded } from '../../../src/lib/guarded.ts'

t.test('what is thrown, at once or later, is given on and is nobody else’s', async (t) => {
  const causes: unknown[] = []
  const failed = (cause: unknown) => void causes.push(cause)
  const fail = (text: string) => {
    throw text
  }
  t.equal(
    guarded(() => 1, failed),
    1,
  )
  t.equal(
    guarded(() => fail('now'), failed),
    undefined,
  )
  const later = guarded(async () => fail('later'), failed)
  await t.rejects(later ?? Promise.resolve())
  t.strictSame(causes, ['now', 'later'])
})
