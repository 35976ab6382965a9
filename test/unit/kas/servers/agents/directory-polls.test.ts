import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { DirectoryPolls } from '../../../../../src/kas/servers/agents/directory-polls.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { abortable } from '../../../../../src/lib/signals.ts'

const agent: Agent = { id: 1n as AgentId, name: 'a', project: { id: 1n, path: 'p' } }
const away = new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
const retryMs = [0, 0] as const
const { signal } = new AbortController()

t.test('polls until the directory answers', async (t) => {
  const polls = new DirectoryPolls({ retryMs })
  const answers: (() => Agent)[] = [fails(away), fails(away), () => agent]
  const ask = async () => (answers.shift() as () => Agent)()
  t.equal(await polls.wait('a', ask, signal), agent)
  const refused = new KasError({ code: 'UNAUTHENTICATED' })
  answers.push(fails(away), fails(refused))
  await t.rejects(polls.wait('a', ask, signal), refused)
})

t.test('the poll ends with the last stream that waits', async (t) => {
  const polls = new DirectoryPolls({ retryMs })
  const { ask, asked } = hanging()
  const controllers = [new AbortController(), new AbortController()]
  const waits = controllers.map((controller) => polls.wait('a', ask, controller.signal))
  const polling = await asked
  const left = new Error('left')
  controllers[0]?.abort(left)
  await t.rejects(waits[0] as Promise<Agent>, left)
  t.equal(polling.aborted, false)
  controllers[1]?.abort(left)
  await t.rejects(waits[1] as Promise<Agent>, left)
  t.match(polling.reason, { code: 'CANCELLED' })
})

t.test('so many tokens, streams, and streams of one token wait at most; who leaves makes room', async (t) => {
  const polls = new DirectoryPolls({ retryMs, maxTokens: 3, maxStreams: 4, maxStreamsPerToken: 2 })
  const { ask } = hanging()
  const controllers: AbortController[] = []
  const waits: Promise<unknown>[] = []
  const wait = (token: string) => {
    const controller = new AbortController()
    const waiting = polls.wait(token, ask, controller.signal)
    waits.push(waiting.catch(() => undefined))
    controllers.push(controller)
    return { controller, waiting }
  }
  const full = { code: 'DIRECTORY_UNAVAILABLE', message: 'unavailable: too many streams wait for it' }
  const first = wait('a')
  wait('a')
  await t.rejects(wait('a').waiting, full, 'of one token')
  wait('b')
  const last = wait('c')
  await t.rejects(wait('b').waiting, full, 'in all')
  last.controller.abort(new Error('left'))
  await t.rejects(last.waiting)
  wait('b')
  first.controller.abort(new Error('left'))
  await t.rejects(first.waiting)
  wait('c')
  for (const controller of controllers) controller.abort(new Error('over'))
  await Promise.all(waits)
  for (const token of ['a', 'b', 'c']) wait(token)
  await t.rejects(wait('d').waiting, full, 'tokens')
  for (const controller of controllers) controller.abort(new Error('over'))
  await Promise.all(waits)
})

function fails(error: KasError): () => Agent {
  return () => {
    throw error
  }
}

/** A directory that does not answer. */
function hanging() {
  const { promise: asked, resolve } = Promise.withResolvers<AbortSignal>()
  const ask = (polling: AbortSignal) => {
    resolve(polling)
    return abortable(new Promise<Agent>(() => undefined), polling)
  }
  return { ask, asked }
}
