import t from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { configMap, Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'
import { RowsSide, source } from './rows-side.ts'

/** An object with a missing owner is a problem: the garbage collector deletes it at once. */

interface Owner {
  readonly apiVersion?: string
  readonly kind?: string
  readonly name: string
  readonly uid?: string
}

const gone = '11111111-1111-1111-1111-111111111111'
const owned = (name: string, owners: readonly Owner[], kind = 'ConfigMap') => {
  const all = owners.map((owner) => ({ apiVersion: 'v1', kind: 'ConfigMap', uid: gone, ...owner }))
  const apiVersion = kind === 'ConfigMap' ? 'v1' : 'rbac.authorization.k8s.io/v1'
  return JSON.stringify({ apiVersion, kind, metadata: { name, ownerReferences: all } })
}

t.test('owners', { skip, timeout: 120_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops', 'other']) {
    await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  }
  await ground.create(keyOf('ConfigMap', 'there'), configMap('there', {}))
  await ground.create(keyOf('ConfigMap', 'elsewhere', 'other'), configMap('elsewhere', {}, { namespace: 'other' }))
  const uidOf = async (...key: Parameters<typeof keyOf>) => (await ground.get(keyOf(...key))).metadata.uid
  const [there, elsewhere] = [await uidOf('ConfigMap', 'there'), await uidOf('ConfigMap', 'elsewhere', 'other')]
  const home = { kind: 'Namespace', name: 'shop', uid: await uidOf('Namespace', 'shop', '') }

  await t.test('one that is not there, or somewhere else, is named, and the object is not made', async (t) => {
    const hint = 'the garbage collector would delete it: correct metadata.ownerReferences, or take them out'
    const where = 'is not in namespace shop, where an owner has to be'
    const cases: [name: string, manifest: string, text: string][] = [
      ['absent', owned('absent', [{ name: 'gone' }]), `its owner ConfigMap gone ${where}: ${hint}`],
      ['far', owned('far', [{ name: 'elsewhere', uid: elsewhere }]), `its owner ConfigMap elsewhere ${where}: ${hint}`],
      ['anew', owned('anew', [{ name: 'there' }]), `its owner ConfigMap there has uid ${there}, not ${gone}: ${hint}`],
      ['second', owned('second', [home, { name: 'gone' }]), `its owner ConfigMap gone ${where}: ${hint}`],
      [
        'wide',
        owned('wide', [{ name: 'there', uid: there }], 'ClusterRole'),
        `its owner ConfigMap there is in a namespace, and it is in none: ${hint}`,
      ],
      ['space', owned('space', [{ ...home, name: 'none' }]), `its owner Namespace none is not there: ${hint}`],
    ]
    const pod = new Pod(ground, { projectId: 801n })
    const { ends } = await pod.bring(Object.fromEntries(cases.map(([name, manifest]) => [`${name}.json`, manifest])))
    for (const [name, , text] of cases) t.match(ends[name], { kind: 'failed', problem: { text } }, name)
    t.equal(await ground.get(keyOf('ConfigMap', 'absent')), undefined)
  })

  await t.test('one that is there, that nobody may read, or whose kind is not known, is left alone', async (t) => {
    const answer = (method: string, path: string) =>
      method === 'GET' && path.includes('/secrets/hidden') ? { status: 403, body: {} } : undefined
    const pod = new Pod(ground, { projectId: 802n, answer })
    const { kinds } = await pod.bring({
      'a.json': owned('own', [{ name: 'there', uid: there }, home]),
      'b.json': owned('hidden', [{ kind: 'Secret', name: 'hidden' }]),
      'c.json': owned('unknown', [{ apiVersion: 'none.example.com/v1', kind: 'None', name: 'a' }]),
      'd.json': owned('nobody', []),
    })
    t.strictSame(kinds, { own: 'applied', hidden: 'applied', unknown: 'applied', nobody: 'applied' })
  })

  await t.test('the row says so, until the owner comes', async (t) => {
    const { project, becomes, exit, stop } = await new RowsSide(ground, 810n).start(t, [source])
    project.push({ 'a.json': owned('late', [{ name: 'late-owner' }]) })
    t.match(await becomes(Phase.FAILING), {
      trouble: [{ key: { name: 'late' }, text: /^its owner ConfigMap late-owner/ }],
    })
    t.equal(await exit(), 1)
    await ground.create(keyOf('ConfigMap', 'late-owner'), configMap('late-owner', {}))
    project.push({ 'a.json': owned('late', [{ name: 'late-owner', uid: await uidOf('ConfigMap', 'late-owner') }]) })
    await becomes(Phase.SYNCED)
    await stop()
  })
})
