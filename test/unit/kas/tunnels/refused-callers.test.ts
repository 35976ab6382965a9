import t from 'tap'
import { noMetadata, type Reply } from '../../../../src/call/call.ts'
import { RefusedCallers } from '../../../../src/kas/tunnels/refused-callers.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { callOf } from '../../../support/agents-server.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const caller = (id: number) => ({ name: `user ${id}`, key: `key-${id}` })
const held = { agentId: '42', held: 9, living: 10, watches: 8, retryAfterS: 5 }

function ground() {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const refusedCallers = new RefusedCallers({ clock, log })
  let isRefused = true
  let asked = 0
  const forward = refusedCallers.watch(async (): Promise<Reply> => {
    asked++
    if (isRefused) throw new KasError({ code: 'CALLER_OVER_SHARE', ...held })
    const messages = (async function* () {})()
    return { metadata: Promise.resolve(noMetadata), messages, done: Promise.resolve({ trailers: noMetadata }) }
  })
  const code = (id: number) =>
    forward(callOf([], { caller: caller(id) })).then(
      () => 'served',
      (error: unknown) => KasError.from(error).code,
    )
  return { clock, lines, refusedCallers, code, asked: () => asked, serve: () => (isRefused = false) }
}

t.test('who was refused is refused again for a second without a question, and then asked about anew', async (t) => {
  const { clock, code, asked, serve } = ground()
  t.equal(await code(1), 'CALLER_OVER_SHARE')
  serve()
  clock.advance(999)
  t.equal(await code(1), 'CALLER_OVER_SHARE')
  t.equal(asked(), 1)
  t.equal(await code(2), 'served', 'others are served')
  clock.advance(1)
  t.equal(await code(1), 'served')
})

t.test('he is named once a minute in the log, and for ten minutes in the status', async (t) => {
  const { clock, lines, refusedCallers, code } = ground()
  for (let i = 0; i < 50; i++) await code(1)
  await code(2)
  t.match(refusedCallers.recent(), [
    { name: 'user 2', count: 1 },
    { name: 'user 1', count: 50, agentId: 42n, last: held },
  ])
  const said = lines.filter(({ msg }) => String(msg).startsWith('A caller is refused'))
  t.match(said, [{ caller: 'user 1', agent_id: '42', reason: /^You hold 9 of the 10/ }, { caller: 'user 2' }])
  t.equal(said.length, 2)
  clock.advance(600_001)
  t.same(refusedCallers.recent(), [])
})

t.test('a thousand of them are kept', async (t) => {
  const { refusedCallers, code } = ground()
  for (let i = 0; i < 1050; i++) await code(i)
  t.equal(refusedCallers.recent().length, 1000)
  t.equal(refusedCallers.recent()[0]?.name, 'user 1049')
})
