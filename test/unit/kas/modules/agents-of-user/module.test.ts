import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { AgentsOfUser, LocalDirectory } from '../../../../../src/kas/directory/local-directory.ts'
import { createAgentsOfUser } from '../../../../../src/kas/modules/agents-of-user/module.ts'
import { abortable } from '../../../../../src/lib/signals.ts'
import { eventually } from '../../../../support/eventually.ts'
import { fakeHost } from '../../../../support/fake-host.ts'

const agents = [7n, 8n].map((id) => ({ id: id as AgentId, name: `a${id}`, project: { id: 1n, path: 'p/q' } }))
const user = { id: 5n, username: 'ada' }
const signal = new AbortController().signal

function start(localDirectory?: LocalDirectory) {
  const module = createAgentsOfUser(fakeHost({ localDirectory }), {
    connectedTo: () => new Map([[7n as AgentId, [{ replica: 'kas-1', since: 1000 }, { replica: 'kas-2' }]]]),
    registered: () => [
      { agentId: 7n as AgentId, projectId: 1n, podId: 1n, meta: new Uint8Array(), registeredAt: 3000, renewed: true },
      { agentId: 7n as AgentId, projectId: 1n, podId: 2n, meta: new Uint8Array(), registeredAt: 2000, renewed: true },
    ],
  })
  const [endpoint] = module.endpoints ?? []
  if (!endpoint || !('admit' in endpoint)) throw new Error('there is no endpoint')
  return endpoint
}

const listing = (list: AgentsOfUser['list']): LocalDirectory => ({
  agentsOfUser: () => ({ user, list }),
  isDeveloper: () => false,
  environmentsOf: () => [],
  onGrantsChange: () => () => undefined,
})

t.test('an answer names replicas and since when, where one knows', async (t) => {
  const endpoint = start(listing(async () => ({ agents, unread: 3 })))
  const { status, body } = await (await endpoint.admit('token')).answer(signal)
  t.equal(status, 200)
  t.same(JSON.parse(Buffer.from(body).toString()), {
    user: 'ada',
    agents: [
      {
        id: '7',
        name: 'a7',
        project: 'p/q',
        pods: 2,
        connected: [
          { replica: 'kas-1', since: '1970-01-01T00:00:01.000Z' },
          { replica: 'kas-2', since: '1970-01-01T00:00:02.000Z' },
        ],
      },
      { id: '8', name: 'a8', project: 'p/q', pods: 0, connected: [] },
    ],
    unread: 3,
  })
})

t.test('a user asks twice at once at the most', async (t) => {
  const waiting = Promise.withResolvers<{ agents: typeof agents; unread: number }>()
  const endpoint = start(listing(() => waiting.promise))
  const ask = async () => (await endpoint.admit('token')).answer(signal)
  const running = [ask(), ask()]
  await t.rejects(ask(), { code: 'TOO_MANY_STREAMS' })
  waiting.resolve({ agents: [], unread: 0 })
  await Promise.all(running)
  t.match(await ask(), { status: 200 })
})

t.test('attack: accounts with as many questions as they may have make room for another one', async (t) => {
  let begun = 0
  const local = listing(async (asked) => {
    if (++begun <= 20) await abortable(new Promise<never>(() => undefined), asked)
    return { agents: [], unread: 0 }
  })
  const endpoint = start({
    ...local,
    agentsOfUser: (token) => ({ ...local.agentsOfUser(token), user: { id: BigInt(token), username: `user-${token}` } }),
  })
  const ended = new AbortController()
  const refused: string[] = []
  const ask = async (user: number) => (await endpoint.admit(String(user))).answer(ended.signal)
  const greedy = Array.from({ length: 20 }, (_, i) =>
    ask(Math.floor(i / 2)).catch(({ code, message }) => void (code && refused.push(message))),
  )
  await eventually(() => begun === 20)
  t.match(await ask(99), { status: 200 })
  await eventually(() => refused.length === 1)
  t.match(refused[0], /Too many questions for the agents of a user, allowed: 20\. You hold 2 of them/)
  ended.abort(new Error('left'))
  await Promise.all(greedy)
})

t.test('with GitLab there is no such list', async (t) => {
  await t.rejects(start().admit('token'), { code: 'NOT_SERVED' })
})
