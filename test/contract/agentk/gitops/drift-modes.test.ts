import t, { type Test } from 'tap'
import type { DriftBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { deployment, Ground, keyOf, skip } from './ground.ts'
import { container, map, mapFile, TermsSide, web, webFile } from './terms-side.ts'

/** The modes of drift on a real API server, over restarts of agentk and changes of the leader. */

const other = (count: number) => mapFile('other', { count: String(count) })
const hour = 3600_000

t.test('modes of drift', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const start = (t: Test, projectId: bigint, drift: DriftBlock, files: Readonly<Record<string, string>>) =>
    TermsSide.start(t, ground, { projectId, drift, files })
  const versionOf = async (...keys: readonly ReturnType<typeof keyOf>[]) =>
    Promise.all(keys.map(async (key) => (await ground.get(key))?.metadata.resourceVersion))
  const data = async (name: string) => (await ground.get(map(name)))?.data

  await t.test(
    'correct: three restarts delay nothing, whether the API server has the time of a change or not',
    async (t) => {
      const files = {
        'web.yaml': webFile('nginx:1'),
        'settings.yaml': mapFile('settings', { kept: '1', removed: '1' }),
        'ordered.yaml': webFile('nginx:1').replaceAll('web', 'ordered'),
      }
      const side = await start(t, 201n, { after: '1800s' }, files)
      const ordered = keyOf('Deployment', 'ordered', 'shop', 'apps')
      await side.patch(ordered, { metadata: { labels: { note: 'x' } } }, 'kubectl-label')
      const ports = [81, 80].map((containerPort) => ({ containerPort, protocol: 'TCP' }))
      await side.replace(ordered, '/spec/template/spec/containers/0/ports', ports)
      await side.drifted('ordered')
      await side.patch(map('settings'), { data: { removed: null } })
      await side.patch(web, container({ image: 'nginx:2' }))
      await side.drifted('web', 'settings', 'ordered')
      side.serverClock.skip(60_000)
      for (const name of ['settings', 'ordered']) await side.recorded(name)
      const times = side.correctAt()
      for (let restart = 1; restart <= 3; restart++) {
        side.serverClock.skip(500_000)
        await side.restart()
        await side.drifted('web', 'settings', 'ordered')
        t.strictSame(side.correctAt(), times, `restart ${restart}`)
      }
      t.equal(await side.image(), 'nginx:2', 'its time has not come')
      side.serverClock.skip(300_000)
      await side.drifted()
      t.equal(await side.image(), 'nginx:1')
      t.strictSame(await data('settings'), { kept: '1', removed: '1' })
      const [first] = (await ground.get(ordered)).spec.template.spec.containers[0].ports
      t.equal(first.containerPort, 80)
    },
  )

  await t.test('correct: a deleted object comes back after 10 s, also across restarts', async (t) => {
    const side = await start(t, 202n, {}, { 'a.yaml': mapFile('gone', { a: '1' }), 'b.yaml': other(0) })
    await side.settle()
    await side.delete(map('gone'))
    await side.drifted('gone')
    const [state] = side.state?.drifted ?? []
    t.match(state, { deleted: true, manager: '' })
    t.equal(Number(state?.correctAtMs) - Number(state?.sinceMs), 10_000)
    t.match(await side.recorded('gone'), { drift: { isDeleted: true } })
    const times = side.correctAt()
    for (let restart = 1; restart <= 2; restart++) {
      side.serverClock.skip(1000)
      await side.restart()
      await side.drifted('gone')
      t.strictSame(side.correctAt(), times, `restart ${restart}`)
      t.equal(await data('gone'), undefined)
    }
    side.serverClock.skip(10_000)
    await eventually(async () => (await data('gone'))?.a === '1')
    await side.drifted()
  })

  await t.test('correct: where no value changes, nothing restarts', async (t) => {
    const side = await start(t, 203n, { after: '3600s' }, { 'web.yaml': webFile('nginx:1'), 'b.yaml': other(0) })
    const owns = async () => {
      const { managedFields } = (await ground.get(web)).metadata
      const own = managedFields.find(({ manager }: { manager: string }) => manager === `agentk-${side.id}`)
      return JSON.stringify(own.fieldsV1).includes('f:image')
    }
    const forced = async (image: string) =>
      ground.apply(web, { apiVersion: 'apps/v1', kind: 'Deployment', ...container({ image }) }, 'other')
    await forced('nginx:2')
    await forced('nginx:1')
    const { metadata, spec } = await ground.get(web)
    t.notOk(await owns(), 'the value is Git’s, and the field another manager’s')
    await eventually(owns)
    const after = await ground.get(web)
    t.equal(after.metadata.generation, metadata.generation)
    t.strictSame(after.spec, spec)
    await side.drifted()
    const before = await versionOf(web)
    await side.restart()
    await side.changeLeader()
    await side.settle()
    await side.resync()
    await side.push({ 'web.yaml': webFile('nginx:1'), 'b.yaml': other(1) })
    t.strictSame(await versionOf(web), before)
  })

  await t.test('correct: fields that people add are still shown after a correction of the same object', async (t) => {
    const side = await start(t, 204n, { after: '0s' }, { 'web.yaml': webFile('nginx:1') })
    const change = { containers: [{ name: 'web', image: 'nginx:2' }], nodeSelector: { disk: 'ssd' } }
    await side.patch(web, { spec: { template: { spec: change } } })
    await side.becomesImage('nginx:1')
    await side.becomes((now) => now?.drifted[0]?.left === 'added')
    t.match(side.state?.drifted, [{ path: ['.spec.template.spec.nodeSelector'], manager: 'kubectl-edit' }])
    t.match((await ground.get(web)).spec.template.spec.nodeSelector, { disk: 'ssd' })
  })

  await t.test(
    'report: nothing is written by ten commits, a restart, a change of the leader; then by resync',
    async (t) => {
      const files = {
        'web.yaml': webFile('nginx:1'),
        'settings.yaml': mapFile('settings', { kept: '1', removed: '1' }),
        'gone.yaml': mapFile('gone', { a: '1' }),
      }
      const side = await start(t, 205n, { mode: 'report', after: '0s' }, { ...files, 'other.yaml': other(0) })
      await side.settle()
      await side.patch(web, container({ image: 'nginx:2' }))
      await side.patch(map('settings'), { data: { removed: null } })
      await side.delete(map('gone'))
      const left = { web: 'mode', settings: 'mode', gone: 'mode' }
      t.strictSame(await side.drifted('web', 'settings', 'gone'), left)
      t.match(await side.recorded('gone'), { drift: { isDeleted: true } }, 'without a commit')
      const before = await versionOf(web, map('settings'), map('gone'))
      const stays = async (where: string) => {
        t.strictSame(await side.drifted('web', 'settings', 'gone'), left, where)
        t.strictSame(await versionOf(web, map('settings'), map('gone')), before, where)
      }
      await side.restart()
      await stays('a restart')
      for (let count = 1; count <= 10; count++) await side.push({ ...files, 'other.yaml': other(count) })
      await stays('ten commits')
      await side.changeLeader()
      await stays('a change of the leader')
      await side.settle()
      await stays('and its first two minutes')
      await side.resync()
      await side.drifted()
      t.equal(await side.image(), 'nginx:1')
      t.match(await data('settings'), { removed: '1' })
      t.match(await data('gone'), { a: '1' })
      await side.patch(web, container({ image: 'nginx:2' }))
      await side.drifted('web')
      await side.push({ ...files, 'web.yaml': webFile('nginx:3') })
      t.equal(await side.image(), 'nginx:3', 'its manifest has changed')
      await side.drifted()
    },
  )

  await t.test('report: a resync that is asked for while no pod leads is done by the next leader, once', async (t) => {
    const files = { 'web.yaml': webFile('nginx:1') }
    const side = await start(t, 211n, { mode: 'report', after: '0s' }, files)
    await side.settle()
    await side.patch(web, container({ image: 'nginx:2' }))
    await side.drifted('web')
    await side.stop()
    await side.resync()
    await side.lead()
    await side.becomesImage('nginx:1')
    await side.marked()
    await side.settle()
    await side.patch(web, container({ image: 'nginx:2' }))
    await side.drifted('web')
    await side.restart()
    await side.settle()
    t.strictSame(await side.drifted('web'), { web: 'mode' }, 'it is not done again')
    t.equal(await side.image(), 'nginx:2')
  })

  await t.test('report: replicas that an autoscaler leaves behind are shown, and stay', async (t) => {
    const files = { 'web.yaml': webFile('nginx:1') }
    const hpa = keyOf('HorizontalPodAutoscaler', 'web', 'shop', 'autoscaling')
    const target = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' }
    await ground.create(hpa, { metadata: { name: 'web' }, spec: { maxReplicas: 9, scaleTargetRef: target } })
    const side = await start(t, 206n, { mode: 'report' }, files)
    await ground.merge(web, { spec: { replicas: 5 } }, 'kube-controller-manager', 'scale')
    await side.push({ ...files, 'b.yaml': other(1) })
    t.strictSame(side.state?.drifted, [])
    await side.delete(hpa)
    await side.push({ ...files, 'b.yaml': other(2) })
    t.strictSame(await side.drifted('web'), { web: 'mode' })
    t.match(side.state?.drifted, [{ path: ['.spec.replicas'] }])
    t.equal((await ground.get(web)).spec.replicas, 5)
  })

  await t.test(
    'a controller that changes back is a fight after three corrections, until the manifest changes',
    async (t) => {
      const files = { 'web.yaml': webFile('nginx:1'), 'b.yaml': other(0) }
      const side = await start(t, 207n, { after: '0s' }, files)
      const fights = (image: string) => side.patch(web, container({ image }), 'controller')
      for (let time = 1; time <= 3; time++) {
        await fights('nginx:9')
        await side.becomesImage('nginx:1')
        await side.drifted()
      }
      await fights('nginx:9')
      t.strictSame(await side.drifted('web'), { web: 'fight' })
      await side.restart()
      t.strictSame(await side.drifted('web'), { web: 'fight' })
      t.equal(await side.image(), 'nginx:9', 'the pod before has counted')
      side.serverClock.skip(2 * hour)
      await side.push({ ...files, 'b.yaml': other(1) })
      t.strictSame(await side.drifted('web'), { web: 'fight' })
      t.equal(await side.image(), 'nginx:9', 'time does not end it')
      await side.push({ 'web.yaml': webFile('nginx:5'), 'b.yaml': other(1) })
      t.equal(await side.image(), 'nginx:5')
      await fights('nginx:9')
      await side.becomesImage('nginx:5')
      await side.drifted()
    },
  )

  await t.test('a hold survives a restart and a change of the leader, and ends at its time by itself', async (t) => {
    const files = { 'web.yaml': webFile('nginx:1'), 'b.yaml': other(0) }
    const side = await start(t, 208n, { after: '0s' }, files)
    const hold = async (image: string) => {
      const until = new Date(side.serverClock.now() + hour).toISOString()
      const annotations = { 'agent.gitlab.com/correct-after': until }
      await side.patch(web, { metadata: { annotations }, ...container({ image }) })
      t.strictSame(await side.drifted('web'), { web: 'hold' })
    }
    await hold('nginx:2')
    await side.restart()
    t.strictSame(await side.drifted('web'), { web: 'hold' })
    await side.changeLeader()
    t.strictSame(await side.drifted('web'), { web: 'hold' })
    await side.push({ ...files, 'b.yaml': other(1) })
    t.strictSame(await side.drifted('web'), { web: 'hold' }, 'nor does a commit that does not touch it')
    t.equal(await side.image(), 'nginx:2')
    side.serverClock.skip(hour)
    await side.becomesImage('nginx:1')
    await hold('nginx:3')
    await side.resync() // it writes during a hold
    await side.becomesImage('nginx:1')
    await hold('nginx:4')
    await side.push({ ...files, 'web.yaml': webFile('nginx:5') })
    t.equal(await side.image(), 'nginx:5', 'and so does a commit that changes the object')
  })

  await t.test('an ignored field inside a list is its manager’s, until that gives it up', async (t) => {
    const path = '.spec.template.spec.containers[name="web"].resources'
    const limits = ', resources: { requests: { cpu: 100m } }'
    const files = { 'web.yaml': webFile('nginx:1', limits), 'b.yaml': other(0) }
    const side = await start(t, 209n, { after: '0s', ignore: [{ kinds: ['Deployment'], paths: [path] }] }, files)
    const cpu = async () => (await ground.get(web)).spec.template.spec.containers[0].resources?.requests?.cpu
    const sets = (fields: object) =>
      ground.apply(web, { apiVersion: 'apps/v1', kind: 'Deployment', ...container(fields) }, 'vpa')
    await sets({ resources: { requests: { cpu: '700m' } } })
    await side.patch(web, container({ image: 'nginx:2' }))
    await side.becomesImage('nginx:1') // a correction of another field of that item
    await side.drifted()
    t.equal(await cpu(), '700m')
    await side.restart()
    await side.resync()
    await side.push({ ...files, 'web.yaml': webFile('nginx:3', limits) })
    t.equal(await side.image(), 'nginx:3')
    t.equal(await cpu(), '700m')
    t.match(side.state?.leftToOthers, [{ path: `${path}.requests.cpu`, manager: 'vpa' }])
    t.strictSame(side.state?.drifted, [])
    await sets({})
    await eventually(async () => (await cpu()) === '100m')
    await side.drifted()
  })

  await t.test('a rule by index costs no comparison in each round', async (t) => {
    const path = '/spec/template/spec/containers/1/resources'
    const both = JSON.stringify(
      deployment('web', {
        template: {
          metadata: { labels: { app: 'web' } },
          spec: {
            containers: ['web', 'side'].map((name) => ({
              name,
              image: 'a',
              resources: { requests: { cpu: '100m' } },
            })),
          },
        },
      }),
    )
    const files = { 'web.json': both, 'b.yaml': other(0) }
    const side = await start(t, 210n, { after: '0s', ignore: [{ paths: [path] }] }, files)
    const asked: string[] = []
    const counted: typeof ground.client.json = (...args) => {
      if (args[1].includes('/deployments/web')) asked.push(args[0])
      return ground.client.json(...args)
    }
    const client = new Proxy(ground.client, {
      get: (of, name) => (name === 'json' ? counted : Reflect.get(of, name).bind(of)),
    })
    const containers = ['web', 'side'].map((name) => ({ name, resources: { requests: { cpu: '100m' } } }))
    const spec = { template: { spec: { containers } } }
    await ground.apply(web, { apiVersion: 'apps/v1', kind: 'Deployment', spec }, 'vpa')
    const [, item] = containers
    const changed = { template: { spec: { containers: [{ ...item, resources: { requests: { cpu: '700m' } } }] } } }
    await ground.apply(web, { apiVersion: 'apps/v1', kind: 'Deployment', spec: changed }, 'vpa')
    await side.push({ ...files, 'b.yaml': other(1) })
    await side.restart(client)
    asked.length = 0
    await side.push({ ...files, 'b.yaml': other(2) })
    t.strictSame(asked, [])
  })
})
