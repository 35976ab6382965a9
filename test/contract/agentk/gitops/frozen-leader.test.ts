import t from 'tap'
import { eventually } from '../../../support/eventually.ts'
import { configMap, deployment, Ground, keyOf, skip } from './ground.ts'
import { container, map, mapFile, TermsSide, web, webFile } from './terms-side.ts'

/** The first two minutes of a term, on a real API server: calls of the leader before, which was frozen, arrive late. */

const other = (count: number) => mapFile('other', { count: String(count) })
/** more fields than a finding lists */
const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`k${i}`, 'git']))

t.test('calls of a frozen leader', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const data = async (name: string) => (await ground.get(map(name)))?.data

  for (const [projectId, mode] of [
    [301n, 'correct'],
    [302n, 'report'],
    [303n, 'none'],
  ] as const) {
    await t.test(`${mode}: late writes and late deletions are healed, and nothing else`, async (t) => {
      const files = { 'web.yaml': webFile('nginx:1'), 'many.yaml': mapFile('many', many), 'other.yaml': other(0) }
      const drift = { mode, after: '3600s' }
      const side = await TermsSide.start(t, ground, { projectId, drift, files })
      const template = { metadata: { labels: { app: 'web' } }, ...container({ image: 'nginx:0' }).spec.template }
      await side.writeLate(web, deployment('web', { replicas: 2, template }))
      await side.becomesImage('nginx:1')
      await side.writeLate(map('many'), configMap('many', { k0: 'older' }))
      await eventually(async () => Object.keys(await data('many')).length === 30 && (await data('many')).k0 === 'git')
      await side.delete(map('many'))
      await eventually(async () => (await data('many'))?.k0 === 'git')
      await side.drifted()
      await side.patch(web, container({ image: 'nginx:2' }))
      const left = mode === 'correct' ? '' : 'mode'
      t.strictSame(await side.drifted('web'), { web: left }, 'a person is no frozen leader')
      await side.changeLeader()
      t.strictSame(await side.drifted('web'), { web: left })
      t.equal(await side.image(), 'nginx:2')
    })

    await t.test(`${mode}: a write of before the term is healed by its first round`, async (t) => {
      const files = { 'web.yaml': webFile('nginx:1'), 'many.yaml': mapFile('many', many) }
      const side = await TermsSide.start(t, ground, {
        projectId: projectId + 10n,
        drift: { mode, after: '3600s' },
        files,
      })
      await side.settle()
      await side.stop()
      await side.writeLate(map('many'), configMap('many', { k0: 'older' }))
      await side.lead()
      t.match(await data('many'), { k0: 'git', k29: 'git' })
    })
  }

  await t.test('report: later than that it is a change like any other', async (t) => {
    const files = { 'many.yaml': mapFile('many', many), 'gone.yaml': mapFile('gone', { a: '1' }) }
    const side = await TermsSide.start(t, ground, { projectId: 321n, drift: { mode: 'report' }, files })
    await side.settle()
    await side.writeLate(map('many'), configMap('many', { k0: 'older' }))
    await side.delete(map('gone'))
    t.strictSame(await side.drifted('many', 'gone'), { many: 'mode', gone: 'mode' })
    t.equal((await data('many')).k0, 'older')
  })

  await t.test('none: agentk watches for the first two minutes of each term, and only then', async (t) => {
    const open = new Set<object>()
    const send: typeof ground.client.send = (request, handler) => {
      const isOfDrift = request.path.includes('labelSelector=agent.gitlab.com%2Finventory&')
      if (!isOfDrift) return ground.client.send(request, handler)
      open.add(request)
      const ended = <T>(value: T): T => {
        open.delete(request)
        return value
      }
      return ground.client.send(request, {
        onHead: (...head) => handler.onHead(...head),
        onData: (chunk) => handler.onData(chunk),
        onEnd: () => ended(handler.onEnd()),
        onError: (error) => ended(handler.onError(error)),
      })
    }
    const client = new Proxy(ground.client, {
      get: (of, name) => (name === 'send' ? send : Reflect.get(of, name).bind(of)),
    })
    const files = { 'web.yaml': webFile('nginx:1'), 'gone.yaml': mapFile('gone', { a: '1' }), 'other.yaml': other(0) }
    const of = { projectId: 331n, drift: { mode: 'none' as const }, files }
    const side = await TermsSide.start(t, ground, of, client)
    const watches = (count: number) => eventually(() => open.size === count)
    await watches(2) // Deployments and ConfigMaps
    await side.settle()
    await watches(0)
    await side.patch(web, container({ image: 'nginx:2' }))
    await side.delete(map('gone'))
    await side.push({ ...files, 'other.yaml': other(1) })
    t.strictSame(
      await side.drifted('web', 'gone'),
      { web: 'mode', gone: 'mode' },
      'a round compares, and writes nothing',
    )
    t.equal(open.size, 0)
    await side.restart(client)
    await watches(2)
    t.strictSame(await side.drifted('web', 'gone'), { web: 'mode', gone: 'mode' })
    await side.settle()
    await watches(0)
    t.equal(await data('gone'), undefined, 'its deletion was shown before')
    t.equal(await side.image(), 'nginx:2')
    await side.push({ ...files, 'web.yaml': webFile('nginx:3'), 'other.yaml': other(1) })
    await side.drifted('gone')
    t.equal(await side.image(), 'nginx:3')
  })
})
