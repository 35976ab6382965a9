import t, { type Test } from 'tap'
import type { Directory } from '../../../src/kas/directory/directory.ts'
import type { OwnAnswer, OwnEndpoint } from '../../../src/kas/own-endpoint.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { startServer } from './start-server.ts'

/** kas makes only a few of its own long answers at once, over all agents (doc/operate/operations.md). */

/** A directory in which a user's token is the user's id. Each hundred of agents is a tenant. */
const directory: Pick<Directory, 'grantJob' | 'grantUser'> = {
  grantJob: () => Promise.reject(new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })),
  async grantUser(agentId, { key }) {
    const user = { id: BigInt(key), username: `user-${key}` }
    return { accessAs: { as: 'agent' }, configProjectId: agentId / 100n, user }
  },
}

async function ground(t: Test) {
  const made: { readonly about: string; readonly end: () => void }[] = []
  const serve: OwnEndpoint['serve'] = ({ agentId }) => {
    const { promise, resolve } = Promise.withResolvers<OwnAnswer>()
    const about = String(agentId)
    made.push({ about, end: () => resolve({ status: 200, mediaType: 'text/plain', body: Buffer.from(about) }) })
    return promise
  }
  const endpoints = [{ path: '/long', methods: ['GET'], isLong: true, serve } as const]
  const { server, port } = await startServer(clusterForward(echo), {}, undefined, { directory, endpoints })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const ask = async (user: number, agent: number, signal: AbortSignal | null = null) => {
    const headers = { Authorization: `Bearer pat:${agent}:${user}` }
    return await (await fetch(`http://127.0.0.1:${port}/k8s-proxy/long`, { headers, signal })).text()
  }
  const begun = (count: number) => eventually(() => made.length >= count)
  /** Asks as another user and gets the whole answer. Earlier requests with a free turn have begun by then. */
  const another = async (agent: number) => {
    const count = made.length
    const answer = ask(9, agent)
    await begun(count + 1)
    t.equal(made[count]?.about, String(agent), 'the next answer is of another user')
    made[count]?.end()
    t.equal(await answer, String(agent))
  }
  return { made, ask, begun, another }
}

t.test('a caller has a part of the turns, about whatever many agents it asks', async (t) => {
  const { made, ask, begun, another } = await ground(t)
  const greedy = Array.from({ length: 30 }, (_, i) => ask(1, 100 * (i + 1)))
  await begun(2)
  await another(50)
  t.equal(made.length, 3, 'two are made at once')
  for (let i = 0; i < 31; i++) {
    await begun(i + 1)
    made[i]?.end()
  }
  t.equal((await Promise.all(greedy)).length, 30, 'and all of them in the end')
})

t.test('an answer is made to its end in its turn, though its client has left', async (t) => {
  const { made, ask, begun, another } = await ground(t)
  const leaving = new AbortController()
  const left = [101, 102].map((agent) => ask(1, agent, leaving.signal).catch(() => 'left'))
  await begun(2)
  leaving.abort()
  t.same(await Promise.all(left), ['left', 'left'])
  const again = ask(1, 103)
  await another(50)
  t.equal(made.length, 3, 'those that nobody waits for are still made')
  made[0]?.end()
  await begun(4)
  t.equal(made[3]?.about, '103')
  made[3]?.end()
  t.equal(await again, '103')
})
