import t from 'tap'
import { Cancellation } from '../../../src/lib/cancellation.ts'

t.test('the last listener hears of it, once; one that comes later at once', async (t) => {
  const cancellation = new Cancellation()
  const heard: string[] = []
  cancellation.onCancel(() => heard.push('first'))
  cancellation.onCancel(() => heard.push('second'))
  t.notOk(cancellation.isCancelled)
  cancellation.cancel()
  cancellation.cancel()
  t.ok(cancellation.isCancelled)
  cancellation.onCancel(() => heard.push('late'))
  t.same(heard, ['second', 'late'])
})

t.test('nobody need listen', async (t) => {
  const cancellation = new Cancellation()
  cancellation.onCancel(() => t.fail('it listens no more'))
  cancellation.onCancel(undefined)
  cancellation.cancel()
  cancellation.onCancel(undefined)
})
