import { EventEmitter, on } from 'node:events'
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { Authenticator } from '../../../../../src/kas/servers/agents/authenticator.ts'
import { TokenCallCounts } from '../../../../../src/kas/servers/agents/limits/token-call-counts.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { abortable } from '../../../../../src/lib/signals.ts'

const agent: Agent = { id: 1n as AgentId, name: 'a', project: { id: 1n, path: 'p' } }
const away = () => new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
const lost = () => new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })

interface Question {
  readonly signal: AbortSignal
  answer(agent: Agent): void
  fail(error: KasError): void
}

mock.timers.enable({ apis: ['setTimeout'] })
t.teardown(() => mock.timers.reset())
/** Ends the pause before the next try. */
const retry = () => mock.timers.tick(1)

/** A directory; the test answers its requests. */
function ground(t: Test) {
  const asked = new EventEmitter()
  const questions = on(asked, 'question')
  t.teardown(() => questions.return?.())
  let count = 0
  const agentByToken = (_: string, signal: AbortSignal) => {
    count += 1
    const { promise, resolve, reject } = Promise.withResolvers<Agent>()
    asked.emit('question', { signal, answer: resolve, fail: reject } satisfies Question)
    return abortable(promise, signal)
  }
  const next = async (): Promise<Question> => (await questions.next()).value?.[0] as Question
  const authenticator = new Authenticator(
    {
      directory: { agentByToken } as unknown as ConstructorParameters<typeof Authenticator>[0]['directory'],
      counts: new TokenCallCounts(Date),
      onRateExceeded: () => undefined,
    },
    { callsPerTokenPerMinute: 1000, retryMs: [0, 0] },
  )
  /** Opens a stream; the directory is away at its first request. */
  const open = async (token: string, signal = new AbortController().signal) => {
    const metadata = { authorization: [`Bearer ${token}`] }
    const opened = authenticator.authenticate(metadata, { patient: true, counted: true }, signal)
    opened.catch(() => undefined)
    ;(await next()).fail(away())
    await turn() // the stream waits before its next try
    return { opened }
  }
  return { open, next, asked: () => count }
}

t.test('the tries that streams of one token share outlive the connection that began them', async (t) => {
  const { open, next, asked } = ground(t)
  const first = new AbortController()
  const { opened: one } = await open('a', first.signal)
  const { opened: two } = await open('a')
  retry()
  const shared = await next()
  const gone = lost()
  first.abort(gone)
  await t.rejects(one, gone)
  t.equal(shared.signal.aborted, false)
  shared.answer(agent)
  t.equal(await two, agent)
  t.equal(asked(), 3, 'one question for both')
})
