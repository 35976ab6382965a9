import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Agent, type Dispatcher, request } from 'undici'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { FreezableFront } from '../support/freezable-front.ts'
import { PodAwareCluster } from '../support/pod-aware-cluster.ts'
import { Processes } from '../support/processes.ts'
import { patience } from '../support/slowness.ts'
import { Stack } from '../support/stack.ts'
import { bearerOf } from '../support/stack-directory.ts'
import { SteadyCalls } from '../support/steady-calls.ts'

/**
 * A pod's connection becomes silent without an end, beside a living pod of the same agent (doc/internals/routing.md "A silent
 * agent").
 */

/** silence before a PING, and the limit for its answer. ms */
const boundMs = 2_000 + 3_000
/** interval of agentk's PINGs to kas, and limit for the answer. ms */
const pingMs = 5_000
/** kas checks the connection four times a second; the rest is for a busy machine */
const slackMs = patience(3_000)

t.test('an agent connection that falls silent', { timeout: 120_000 }, async (t) => {
  const cluster = await PodAwareCluster.start(t)
  const processes = await Processes.start(t)
  const stack = await Stack.start(processes, { agentKubeconfig: '' })
  const kubeconfigOf = async (pod: string) => {
    const path = join(processes.folder, `${pod}.kubeconfig`)
    const user = { token: pod } // the cluster identifies the pod by it
    await writeFile(path, kubeconfigText({ server: cluster.url, caFile: stack.caFile, user }))
    return path
  }
  const front = await FreezableFront.start(t, Number(new URL(stack.agentsUrl).port))
  const address = `${stack.scheme}://127.0.0.1:${front.port}`
  await stack.startAgentk({ pod: 'silent', address, kubeconfig: await kubeconfigOf('silent') })
  await stack.connected()

  const ca = await readFile(stack.caFile, 'utf8')
  const dispatcher = new Agent({ connect: { ca }, headersTimeout: 0, bodyTimeout: 0 })
  t.teardown(() => dispatcher.destroy())
  const token = bearerOf('agent')
  const call = (path: string, method: Dispatcher.HttpMethod = 'GET') =>
    request(`${stack.kubernetesUrl}${path}`, { dispatcher, method, headers: { authorization: `Bearer ${token}` } })

  const safe = call('/held')
  const unsafe = call('/held', 'POST')
  await cluster.asked({ pod: 'silent', path: '/held', count: 2 })
  const watch = (await call('/events')).body[Symbol.asyncIterator]()
  t.match(String((await watch.next()).value), 'event')

  await stack.startAgentk({ pod: 'living', kubeconfig: await kubeconfigOf('living') })
  const steady = new SteadyCalls({ url: `${stack.kubernetesUrl}/steady`, ca, token, pauseMs: 20 })
  t.teardown(() => steady.stop())
  steady.start()
  await cluster.asked({ pod: 'living', path: '/steady' })
  await cluster.asked({ pod: 'silent', path: '/steady' })

  front.freeze({ isClosed: true }) // the silent pod must not come back before the other one has been checked
  const frozenAt = steady.now
  const since = () => Math.round(steady.now - frozenAt)

  await t.test('a safe call that waits for its answer gets it from the other pod', async (t) => {
    const answer = await safe
    t.equal(answer.statusCode, 200)
    t.same(await answer.body.json(), { pod: 'living' })
    t.comment(`after ${since()} ms`)
    t.ok(since() < boundMs + slackMs, `within ${boundMs + slackMs} ms`)
  })

  await t.test('an unsafe one fails, is said to have perhaps been made, and is not made again', async (t) => {
    const answer = await unsafe
    t.equal(answer.statusCode, 502)
    t.equal(answer.headers['kas-delivery'], 'maybe')
    t.match(await answer.body.json(), { kind: 'Status', message: /The connection of the agent was lost/ })
    t.same(cluster.podsThatAsked('POST', '/held'), ['silent'])
  })

  await t.test('an answer that has begun is cut, so that its reader knows', async (t) => {
    await t.rejects(watch.next())
  })

  await t.test('steady calls go on through the other pod', async (t) => {
    const lostAt = steady.now
    await steady.more(100)
    const first = steady.results.filter(({ startedMs }) => startedMs > lostAt)
    t.same([...new Set(first.map(({ text }) => JSON.parse(text).pod))], ['living'])
    t.ok(
      first.every(({ tookMs }) => tookMs < patience(1_000)),
      'none of them waits',
    )
    t.same(steady.failed.slice(0, 3), [], `${steady.failed.length} of ${steady.results.length} calls failed`)
    const longest = Math.max(...steady.results.map(({ tookMs }) => tookMs))
    t.comment(`the longest call took ${Math.round(longest)} ms`)
    t.ok(longest < boundMs + slackMs, `none took longer than ${boundMs + slackMs} ms`)
  })

  await t.test('the silent pod notices too, and comes back', async (t) => {
    front.admit()
    await cluster.asked({ pod: 'silent', path: '/steady' })
    t.comment(`after ${since()} ms`)
    t.ok(since() < 2 * pingMs + slackMs, `within ${2 * pingMs + slackMs} ms`)
    await steady.more(100)
    await steady.stop()
    t.same(steady.failed.slice(0, 3), [], `${steady.failed.length} of ${steady.results.length} calls failed`)
  })
})
