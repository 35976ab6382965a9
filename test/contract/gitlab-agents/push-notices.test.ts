import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { startWholeReplicas } from '../../support/gitlab/whole-replicas.ts'
import { access } from './access-side.ts'
import { followProjects } from './reconcile-stream.ts'

/** Notifications of pushes that an agent's Flux gets from whole replicas of kas. */

const pushes = Number(process.env.KAS_PUSHES ?? 20)
const verify = '/internal/kubernetes/verify_project_access'

for (const version of ['16.5', '17.9', '18.9'] as const) {
  t.test(`with GitLab ${version}: pushes to public projects and to the agent's own, no others`, async (t) => {
    const { gitlab, replicas, tellPush } = await startWholeReplicas(t, 1, { version })
    const [replica] = replicas
    const agent = await replica?.dial()
    const { next, stream } = followProjects(agent as FakeAgent, ['platform/clusters', 'apps/web', 'other/thing'])
    await stream.metadata
    for (const path of ['apps/web', 'none/such', 'platform/clusters', 'other/thing', 'platform/clusters']) {
      await tellPush(path)
    }
    const told = [await next(), await next(), await next()]
    t.strictSame(
      told.map(({ path }) => path),
      ['platform/clusters', 'other/thing', 'platform/clusters'],
    )
    t.strictSame(
      gitlab.of(verify).map(({ query }) => query.get('id')),
      ['apps/web', 'platform/clusters', 'other/thing'],
      'asked once, as long as the answer is kept',
    )
    gitlab.module = (_, response) => response.end('from a module')
    t.equal(String((await access(agent as FakeAgent)).body), 'from a module')
    const started = /^grpc_server_started_total\{.*"MakeRequest",grpc_type="bidi_stream"\} 1$/m
    t.match(await replica?.metrics(), started)
    t.match(await replica?.metrics(), /^flux_git_push_notifications_total 3$/m)
    t.match(await replica?.metrics(), /^flux_dropped_git_push_notifications_total 0$/m)
  })
}

t.test('pushes that GitLab tells one replica reach an agent of another, once, across reconnects', async (t) => {
  const { replicas, tellPush } = await startWholeReplicas(t, 2)
  const [first, last] = replicas
  if (!first || !last) throw new Error('two were started')
  const agent = await last.dial()
  let { next, stream } = followProjects(agent, ['platform/clusters'])
  await stream.metadata
  const times: number[] = []
  const ids = new Set<bigint>()
  for (let i = 0; i < pushes; i++) {
    const began = performance.now()
    await tellPush('platform/clusters')
    ids.add((await next()).pushId ?? 0n)
    times.push(performance.now() - began)
  }
  t.equal(ids.size, pushes, 'each once')
  const [median, worst] = [0.5, 1].map((share) => times.toSorted((x, y) => x - y)[Math.ceil(share * pushes) - 1])
  t.comment(`from the event to the agent: median ${median?.toFixed()} ms, worst ${worst?.toFixed()} ms of ${pushes}`)

  agent.close()
  await tellPush('platform/clusters')
  const again = followProjects(await last.dial(), ['platform/clusters'])
  const { pushId } = await again.next()
  t.notOk(ids.has(pushId), 'what was pushed while it was away')
  ;({ next, stream } = followProjects(await first.dial(), ['platform/clusters']))
  t.equal((await next()).pushId, pushId, 'another replica cannot know that it was told: it tells the same')
  await tellPush('platform/clusters')
  const both = [(await again.next()).pushId, (await next()).pushId]
  t.equal(both[0], both[1], 'each stream of an agent is told')
  t.not(both[0], pushId)
})

t.test('a replica that starts hears of the pushes that the others have heard of', async (t) => {
  const { replicas, tellPush, startAgain } = await startWholeReplicas(t, 2)
  const [first, last] = replicas
  await last?.app.stop(AbortSignal.abort())
  await tellPush('platform/clusters')
  const { next } = followProjects((await first?.dial()) as FakeAgent, ['platform/clusters'])
  const { pushId } = await next()
  const again = followProjects(await (await startAgain(1)).dial(), ['platform/clusters'])
  t.equal((await again.next()).pushId, pushId)
})

t.test('an agent that comes and goes 40 times while GitLab tells of 40 pushes hears of each', async (t) => {
  const paths = Array.from({ length: 40 }, (_, i) => `p/${i}`)
  const public_ = paths.map((path, i) => ({ id: 100 + i, path, groups: [], isPublic: true }))
  const world = { ...suiteWorld(), projects: [...suiteWorld().projects, ...public_] }
  const { replicas, tellPush } = await startWholeReplicas(t, 2, { world })
  const heard = new Map<string, Set<bigint>>()
  let told = 0
  const listen = async (i: number) => {
    const agent = (await replicas[i % 2]?.dial()) as FakeAgent
    const { next, stream } = followProjects(agent, paths)
    const reading = (async () => {
      for (;;) {
        const { path = '', pushId } = await next()
        told += 1
        heard.set(path, (heard.get(path) ?? new Set()).add(pushId))
      }
    })()
    reading.catch(() => undefined) // the agent left
    return { agent, stream }
  }
  let { agent, stream } = await listen(0)
  for (const [i, path] of paths.entries()) {
    const telling = tellPush(path, 100n + BigInt(i))
    if (i % 3 === 0) stream.cancel()
    else agent.close()
    ;({ agent, stream } = await listen(i))
    await telling
  }
  await Promise.all([listen(0), listen(1)])
  await eventually(() => heard.size === 40 || Promise.reject(new Error(`${heard.size} of 40 were heard of`)))
  t.equal(Math.max(...[...heard.values()].map(({ size }) => size)), 1, 'a push has one id at all replicas')
  t.comment(`40 pushes were told ${told} times`)
})
