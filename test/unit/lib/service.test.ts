import t from 'tap'
import { type Service, Stages } from '../../../src/lib/service.ts'

function recorder(log: string[], name: string, faults: { start?: boolean; stop?: boolean } = {}): Service {
  return {
    async start() {
      log.push(`start ${name}`)
      if (faults.start) throw new Error(`${name} does not start`)
    },
    async stop(patience) {
      log.push(`stop ${name}${patience?.aborted ? ' now' : ''}`)
      if (faults.stop) throw new Error(`${name} does not stop`)
    },
  }
}

t.test('starts in order and stops in reverse, once', async (t) => {
  const log: string[] = []
  const stages = new Stages([recorder(log, 'a'), recorder(log, 'b')])
  await stages.start()
  await stages.stop()
  await stages.stop()
  t.strictSame(log, ['start a', 'start b', 'stop b', 'stop a'])
})

t.test('a half-failed start is undone at once, and its cause is told', async (t) => {
  const log: string[] = []
  const stages = new Stages([
    recorder(log, 'a', { stop: true }),
    recorder(log, 'b', { start: true }),
    recorder(log, 'c'),
  ])
  await t.rejects(stages.start(), { message: 'b does not start' })
  t.strictSame(log, ['start a', 'start b', 'stop b now', 'stop a now'])
})

t.test('one that does not stop keeps no other from stopping, and is told', async (t) => {
  const log: string[] = []
  const stages = new Stages([recorder(log, 'a'), recorder(log, 'b', { stop: true })])
  await stages.start()
  await t.rejects(stages.stop(), { message: 'b does not stop' })
  t.strictSame(log.slice(2), ['stop b', 'stop a'])
})
