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

t.test('all leave at the same time, the last that started first, before any is stopped', async (t) => {
  const log: string[] = []
  const graces = new Map<string, () => void>()
  const graceful = (name: string): Service => ({
    ...recorder(log, name),
    leave(patience) {
      log.push(`leave ${name}${patience?.aborted ? ' now' : ''}`)
      return new Promise((resolve) => graces.set(name, resolve))
    },
  })
  const stages = new Stages([graceful('a'), recorder(log, 'b'), graceful('c')])
  await stages.start()
  const stopped = stages.stop()
  t.strictSame(log.slice(3), ['leave c', 'leave a'])
  graces.get('c')?.()
  graces.get('a')?.()
  await stopped
  t.strictSame(log.slice(5), ['stop c', 'stop b', 'stop a'])
})

t.test('one that fails to leave is stopped, as are the others, and is told', async (t) => {
  const log: string[] = []
  const failing = { ...recorder(log, 'a'), leave: () => Promise.reject(new Error('a does not leave')) }
  const stages = new Stages([failing, recorder(log, 'b')])
  await stages.start()
  await t.rejects(stages.stop(), { message: 'a does not leave' })
  t.strictSame(log.slice(2), ['stop b', 'stop a'])
})
