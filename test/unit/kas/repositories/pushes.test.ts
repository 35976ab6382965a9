import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { LocalPushEvents } from '../../../../src/kas/repositories/pushes.ts'
import { createLogger } from '../../../../src/lib/log.ts'

t.test('a push is followed up without being waited for, and a failure is told in the log alone', async (t) => {
  const log: string[] = []
  const poked: bigint[] = []
  const looking = Promise.withResolvers<void>()
  const events = new LocalPushEvents({
    repositories: {
      poke(projectId) {
        poked.push(projectId)
        return looking.promise
      },
    },
    log: createLogger({ level: 'info', destination: { write: (line) => log.push(line) } }),
  })
  await events.publish({ projectId: 2n ** 60n, projectPath: 'a/b' })
  t.strictSame(poked, [2n ** 60n])
  looking.reject(new Error('away'))
  await setImmediate()
  t.match(JSON.parse(log[0] ?? '{}'), { level: 'warn', project_id: String(2n ** 60n), error: { message: 'away' } })
})
