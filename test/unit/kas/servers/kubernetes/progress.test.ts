import t from 'tap'
import { lastMessageOf } from '../../../../../src/kas/servers/kubernetes/last-message.ts'
import { Progress } from '../../../../../src/kas/servers/kubernetes/progress.ts'
import { KasError } from '../../../../../src/lib/errors.ts'

const head = { accept: ['application/json'], upgrade: ['WebSocket'] }
const watching = lastMessageOf('watch', {
  statusCode: 200,
  status: '200 OK',
  header: [['Content-Type', ['application/json']]],
})
const failure = new KasError({ code: 'CANCELLED' })
const withdrawal = new KasError({ code: 'USER_UNAUTHORIZED' })

const steps = {
  read: (progress: Progress) => progress.read(head, 'https://gitlab.example.com'),
  forwarding: (progress: Progress) => progress.forwarding(),
  delivered: (progress: Progress) => progress.delivered(),
  answerBegan: (progress: Progress) => progress.answerBegan(watching),
}
const inOrder = Object.values(steps)

function after(count: number): Progress {
  const progress = new Progress(undefined)
  for (const step of inOrder.slice(0, count)) step(progress)
  return progress
}

t.test('how a failure is told follows from how far the request came', async (t) => {
  const told = [0, 1, 2, 3, 4].map((count) => {
    const progress = after(count)
    progress.fail(failure)
    return `${progress.failedAt} ${progress.delivery}`
  })
  t.strictSame(told, ['entry none', 'entry none', 'tunnel none', 'tunnel maybe', 'tunnel maybe'])
  t.match(after(0), { accept: [], isWebSocket: false, origin: undefined, traceId: undefined })
  t.match(after(1), { accept: head.accept, isWebSocket: true, origin: 'https://gitlab.example.com' })
})

t.test('a last message may follow between two events alone', async (t) => {
  const progress = after(4)
  const writes = (text: string) => Buffer.from(progress.writes(Buffer.from(text))).toString()
  t.ok(progress.lastMessage, 'before the first')
  t.equal(writes('{"type":'), '{"type":')
  t.notOk(progress.lastMessage)
  t.notOk(progress.mayEnd)
  t.equal(writes('"ADDED"}\n{"type":'), '"ADDED"}\n{"type":')
  t.notOk(progress.lastMessage)
  progress.withdraw(withdrawal)
  t.equal(writes('"MODIFIED"}\n{"type":"ADDED"}\n'), '"MODIFIED"}\n', 'what begins after it is not passed on')
  t.ok(progress.lastMessage)
  t.ok(progress.mayEnd)

  const other = after(3)
  other.answerBegan(undefined)
  other.writes(Buffer.from('{}'))
  t.ok(other.mayEnd, 'it ends no better later')
  t.notOk(other.lastMessage)
})

t.test('what was withdrawn fails with the reason of that', async (t) => {
  const progress = after(2)
  progress.withdraw(withdrawal)
  t.equal(progress.failure, undefined, 'it has not failed yet')
  progress.fail(failure)
  t.equal(progress.failure, withdrawal)
  t.throws(() => progress.withdraw(withdrawal), /cannot be withdrawn after it has failed/)
})

t.test('a step out of order throws', async (t) => {
  for (const [done, due] of inOrder.entries()) {
    for (const [name, step] of Object.entries(steps)) {
      if (step !== due) t.throws(() => step(after(done)), /a request cannot be/, `${name} after ${done} steps`)
    }
    t.throws(() => after(done).writes(Buffer.from('x')), /cannot be writing while/)
    const failed = after(done)
    failed.fail(failure)
    t.throws(() => due(failed), /after it has failed/)
    t.throws(() => failed.fail(failure), /after it has failed/)
  }
})
