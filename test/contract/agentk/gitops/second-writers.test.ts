import t from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { configMap, Ground, keyOf, skip } from './ground.ts'
import { RowsSide, source } from './rows-side.ts'

/** Another manager that writes the fields that Git sets. */

t.test('a second writer', { skip, timeout: 120_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const side = new RowsSide(ground, 820n)
  const map = (name: string) => JSON.stringify(configMap(name, { i: 'git', j: 'git' }))

  for (const [how, manager, write] of [
    [
      'forces it',
      'robot',
      (name: string) => ground.apply(keyOf('ConfigMap', name), configMap(name, { i: 'x' }), 'robot'),
    ],
    [
      'patches it',
      'patcher',
      (name: string) => ground.merge(keyOf('ConfigMap', name), { data: { i: 'x' } }, 'patcher'),
    ],
    [
      'runs kubectl apply',
      'kubectl-client-side-apply',
      (name: string) => ground.merge(keyOf('ConfigMap', name), { data: { i: 'x' } }, 'kubectl-client-side-apply'),
    ],
  ] as const) {
    await t.test(`one that ${how} is named once it does so again`, async (t) => {
      const name = `fought-${manager}`
      const { project, becomes, stop } = await side.start(t, [{ ...source, drift: { after: '0s' } }])
      const push = async (count: number) => {
        project.push({ 'a.json': map(name), 'b.json': map(`${name}-${count}`), 'c.json': map(`${name}-quiet`) })
        return (await becomes(Phase.SYNCED)).problem
      }
      t.equal(await push(0), '')
      await write(name)
      t.equal(await push(1), '', 'once is a change by hand')
      await write(name)
      const field = how === 'runs kubectl apply' ? 'it' : '\\.data\\.i'
      const text = `^ConfigMap shop/${name}: ${manager} writes ${field} as well, and was undone 2 times in \\d+ min: leave`
      t.match(await push(2), new RegExp(text))
      t.equal((await ground.get(keyOf('ConfigMap', name))).data.i, 'git')
      await stop()
    })
  }
})
