import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { LocalPushes, type PushEvent } from '../../../../src/kas/repositories/local-pushes.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const event: PushEvent = { projectId: 2n ** 60n, projectPath: 'a/b', id: 5n }

t.test('a push is followed up without being waited for, and a failure is told in the log alone', async (t) => {
  const { log, lines } = capturedLog()
  const notified: bigint[] = []
  const looking = Promise.withResolvers<void>()
  const pushes = new LocalPushes({
    repositories: {
      pollAfterNotice(projectId) {
        notified.push(projectId)
        return looking.promise
      },
    },
    log,
  })
  pushes.publish(event)
  t.strictSame(notified, [2n ** 60n])
  lines.length = 0
  looking.reject(new Error('away'))
  await setImmediate()
  t.match(lines, [{ level: 'warn', project_id: String(2n ** 60n), error: { message: 'away' } }])
  t.equal(lines.length, 1)
})

t.test('who listens hears of each push at once, and no more once it does not', (t) => {
  const pushes = new LocalPushes({ repositories: { pollAfterNotice: async () => undefined }, log: capturedLog().log })
  const heard: unknown[] = []
  const listener = (push: PushEvent) => void heard.push(push)
  const forget = [pushes.onPush(listener), pushes.onPush(listener)]
  pushes.publish(event)
  t.strictSame(heard, [event, event])
  forget[0]?.()
  pushes.publish(event)
  t.equal(heard.length, 3, 'each listener by itself')
  forget[1]?.()
  pushes.publish(event)
  t.equal(heard.length, 3)
  t.end()
})
