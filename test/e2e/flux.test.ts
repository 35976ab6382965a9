import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { create, toBinary } from '@bufbuild/protobuf'
import { status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { App } from '../../src/agentk/app.ts'
import { loadCluster } from '../../src/agentk/cluster/load-cluster.ts'
import { readConfig } from '../../src/agentk/config/config.ts'
import { parseFlags } from '../../src/agentk/config/flags.ts'
import { delay } from '../../src/lib/signals.ts'
import { GitPushEventRequestSchema } from '../../src/proto/gen/notifications_pb.ts'
import { callUnary, connect, jwt, metadataOf } from '../contract/rails-server/start-server.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { capturedLog } from '../support/captured-log.ts'
import { eventually } from '../support/eventually.ts'
import { FluxDouble, fluxPath } from '../support/flux/flux-double.ts'
import { SwitchingFront } from '../support/flux/switching-front.ts'
import { GitalyDouble } from '../support/gitaly/gitaly-double.ts'
import { ServedRepository } from '../support/gitaly/served-repository.ts'
import { suiteWorld } from '../support/gitlab/gitlab-world.ts'
import { startWholeReplicas } from '../support/gitlab/whole-replicas.ts'

/**
 * GitLab sends a push to any of three replicas. The leading pod of the agent then calls the webhook of the Receiver for
 * that project. The API server and its objects are real. `KAS_PUSHES=100` makes a hundred reconnects.
 */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const reconnects = Number(process.env.KAS_PUSHES ?? 3)
/** A connection that lived shorter than a second counts as a crash loop: agentk pauses before it dials again. ms */
const aliveMs = 1050
/** number of projects; the last one has no GitRepository at first */
const projects = reconnects * 2 + 16
const mergePatch = 'application/merge-patch+json'
const gitlabUrl = 'https://gitlab.example.com'
const namespace = 'apps'
const keyOf = (i: number) => `${namespace}/gitlab-p${i}`
const urlOf = (i: number) => `${gitlabUrl}/p/p${i}.git`

t.test('pushes reach Flux', { skip, timeout: 60_000 + reconnects * 4000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'flux-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  const flux = await FluxDouble.start(t, admin)
  const kas = await startKas(t, flux.url, folder)
  const front = await SwitchingFront.start(t, () => kas.agentPorts())
  await admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
  const followed = Array.from({ length: projects - 1 }, (_, i) => i)
  for (const i of followed) await flux.createRepository(`p${i}`, urlOf(i), namespace)
  await flux.createRepository('elsewhere', 'https://github.com/p/p0', namespace)
  const kubeconfig = await agentkAccount(controlPlane, join(folder, 'agentk'), ['agentk', 'agentk-flux'])
  const pods = await Promise.all(['agentk-0', 'agentk-1'].map((pod) => startAgentk(t, pod, { front, kubeconfig })))
  const isCalled = (...keys: string[]) =>
    eventually(() => {
      const missing = keys.filter((key) => flux.countOf(key) === 0)
      if (missing.length > 0) throw new Error(`not called: ${missing.join(', ')}`)
    })
  /** calls beyond the first of each Receiver; 0 as long as no push is delivered twice */
  const extras = () => flux.called.length - new Set(flux.called).size
  let next = 0

  await t.test('each GitRepository of this GitLab gets a Receiver', async (t) => {
    await flux.ready(followed.map(keyOf))
    const { items } = await admin.get(fluxPath('receivers'))
    t.equal(items.length, followed.length, 'and no other')
    const { metadata, spec } = await admin.get(`${fluxPath('receivers', namespace)}/gitlab-p0`)
    t.match(metadata, { ownerReferences: [{ kind: 'GitRepository', name: 'p0', controller: true }] })
    t.match(spec, { type: 'generic', resources: [{ kind: 'GitRepository', name: 'p0', namespace }] })
    t.equal(pods.filter(({ says }) => says('Flux is followed')).length, 1, 'one pod works for Flux')
  })

  await t.test('a push that any replica hears of calls the matching Receiver, once', async (t) => {
    for (const replica of [0, 1, 2]) {
      await kas.tellPush(replica, next)
      await isCalled(keyOf(next++))
    }
    t.strictSame(flux.called, [0, 1, 2].map(keyOf))
  })

  await t.test('a webhook that fails is called again', async (t) => {
    flux.status = 503
    await kas.tellPush(0, next)
    await eventually(() => flux.refused > 0 || Promise.reject(new Error('not called yet')))
    flux.status = 200
    await isCalled(keyOf(next))
    t.equal(flux.countOf(keyOf(next++)), 1)
  })

  await t.test("a Receiver that is a user's is called in place of one of ours; what is ours is repaired", async (t) => {
    const last = projects - 1
    await admin.create(`/api/v1/namespaces/${namespace}/secrets`, {
      metadata: { name: 'mine' },
      stringData: { token: 'mine' },
    })
    const resources = [{ kind: 'GitRepository', name: `p${last}` }]
    await flux.createReceiver('mine', { type: 'generic', resources, secretRef: { name: 'mine' } }, namespace)
    await flux.createRepository(`p${last}`, urlOf(last), namespace)
    const path = `${fluxPath('receivers', namespace)}/gitlab-p0`
    await admin.request(path, { method: 'PATCH', body: { spec: { resources: [] } }, contentType: mergePatch })
    await admin.request(`${fluxPath('receivers', namespace)}/gitlab-p1`, { method: 'DELETE' })
    await eventually(async () => {
      const { spec } = await admin.get(path)
      if (spec.resources.length === 0) throw new Error('not repaired yet')
      await admin.get(`${fluxPath('receivers', namespace)}/gitlab-p1`)
    })
    await eventually(() => {
      const isFollowed = pods.some(({ says }) => says('Following pushes to projects', { count: projects }))
      if (!isFollowed) throw new Error('the new project is not followed yet')
    })
    await kas.tellPush(1, last)
    await isCalled(`${namespace}/mine`)
    t.equal((await admin.get(fluxPath('receivers', namespace))).items.length, projects)
    t.equal(extras(), 0)
  })

  await t.test(
    `${reconnects} reconnects, with pushes before and while the pod is away: each is called once`,
    async (t) => {
      const times: number[] = []
      for (let i = 0; i < reconnects; i++) {
        const dialled = front.count
        await kas.tellPush(i % 3, next)
        front.cut() // the push of a moment ago may be lost
        await kas.tellPush((i + 1) % 3, next + 1)
        const began = performance.now()
        await isCalled(keyOf(next), keyOf(next + 1))
        times.push(performance.now() - began)
        t.ok(front.count > dialled)
        next += 2
        await delay(aliveMs)
      }
      t.equal(extras(), 0)
      t.comment(`from the second push to the call: ${times.map((ms) => ms.toFixed()).join(' ')} ms`)
    },
  )

  await t.test('each kas restarts: each push is called, at most once more for each restart', async (t) => {
    for (const i of [0, 1, 2]) {
      await Promise.all([kas.stop(i, i === 1), kas.tellPush((i + 1) % 3, next)])
      await kas.tellPush((i + 2) % 3, next + 1)
      await kas.start(i) // the pod may connect to this one before it connects to any other
      await kas.tellPush(i, next + 2)
      await isCalled(...[next, next + 1, next + 2].map(keyOf))
      next += 3
    }
    t.comment(`${extras()} were called once more`)
    t.ok(extras() <= 3)
  })

  await t.test('another pod leads: it goes on, and calls no Receiver more than once more', async (t) => {
    const before = extras()
    const called = flux.called.length
    const [first, second] = pods.toSorted(
      (a, b) => Number(b.says('Flux is followed')) - Number(a.says('Flux is followed')),
    )
    await first?.app.stop()
    await kas.tellPush(0, next)
    await isCalled(keyOf(next))
    t.ok(second?.says('Flux is followed'))
    const since = flux.called.slice(called)
    t.equal(new Set(since).size, since.length, 'none twice')
    t.comment(`${extras() - before} were called once more`)
  })

  await t.test('no secret is in the log', async (t) => {
    for (const { lines } of pods) t.notMatch(JSON.stringify(lines), /\/hook\/|glagent-prod/)
  })
})

/** Starts three replicas; the agent's configuration names the webhooks. */
async function startKas(t: Test, webhookUrl: string, folder: string) {
  const repository = await ServedRepository.create(folder)
  const text = JSON.stringify({
    flux: { webhook_receiver_url: webhookUrl },
    observability: { logging: { level: 'debug' } },
  })
  await repository.push({ '.gitlab/agents/prod/config.yaml': text })
  const gitaly = await GitalyDouble.start(t, { folder })
  const suite = suiteWorld()
  const own = Array.from({ length: projects }, (_, i) => ({ id: 100 + i, path: `p/p${i}`, groups: [], isPublic: true }))
  const world = {
    ...suite,
    projects: [...suite.projects, ...own],
    gitaly: { address: gitaly.address, token: gitaly.token },
  }
  const { gitlab, replicas, startAgain } = await startWholeReplicas(t, 3, { world })
  const isOpen = replicas.map(() => true)
  const rails = replicas.map(({ portOf }) => connect(t, portOf('API')))
  /** sends a push to project `p/p<i>` to a replica, as GitLab does */
  const tellPush = async (replica: number, i: number) => {
    const event = { project: { id: BigInt(100 + i), fullPath: `p/p${i}` } }
    const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
    const metadata = metadataOf({ authorization: `bearer ${await jwt({ key: gitlab.secret })}` })
    const method = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
    const { code, details } = await callUnary(rails[replica] as ReturnType<typeof connect>, method, request, metadata)
    if (code !== status.OK) throw new Error(`GitPushEvent: ${code} ${details}`)
  }
  /** @param abruptly - running calls are cut */
  const stop = async (i: number, abruptly: boolean) => {
    isOpen.fill(false) // no replica takes the pod until this one is back
    await replicas[i]?.app.stop(abruptly ? AbortSignal.abort() : undefined)
  }
  const start = async (i: number) => {
    rails[i] = connect(t, (await startAgain(i)).portOf('API'))
    isOpen.fill(false)
    isOpen[i] = true
  }
  const agentPorts = () => replicas.filter((_, i) => isOpen[i]).map(({ portOf }) => portOf('Agentk API'))
  return { tellPush, stop, start, agentPorts, replicas }
}

interface Ways {
  readonly front: SwitchingFront
  readonly kubeconfig: string
}

/** Starts one pod of the agent, in this process. */
async function startAgentk(t: Test, pod: string, { front, kubeconfig }: Ways) {
  const flags = parseFlags([
    `--kas-address=grpc://127.0.0.1:${front.port}`,
    `--kubeconfig=${kubeconfig}`,
    '--observability-listen-address=127.0.0.1:0',
  ])
  const env = { AGENTK_TOKEN: 'glagent-prod', POD_NAME: pod, POD_NAMESPACE: 'agentk' }
  const config = readConfig(flags, env)
  const { log, lines } = capturedLog()
  const access = await loadCluster(config.cluster, env)
  const app = new App({ log, access }, { config, version: { version: '18.5.0', commit: 'test' } })
  t.teardown(() => app.stop(AbortSignal.abort()))
  await app.start()
  const says = (msg: string, fields: object = {}) =>
    lines.some((line) => isDeepStrictEqual(line, { ...line, msg, ...fields }))
  return { pod, app, lines, says }
}
