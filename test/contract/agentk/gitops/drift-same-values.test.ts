import t from 'tap'
import { entriesOf } from '../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { textAt } from '../../../../src/kubernetes/object.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { Kubectl } from '../../../support/kubectl.ts'
import { Processes } from '../../../support/processes.ts'
import { askForDrift } from './drift-questions.ts'
import { DriftSide } from './drift-side.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { edited, type Live } from './told-changes.ts'
import { toldKey, toldManifest } from './told-manifests.ts'

/**
 * `kubectl get -o yaml | kubectl apply --server-side` on a real API server: kubectl then owns the defaults, which nobody
 * owned before. Values that were there before are no additions; a field that somebody adds in between is one.
 */

const kinds = ['Deployment', 'StatefulSet', 'DaemonSet', 'CronJob', 'Service', 'ConfigMap', 'Ingress'] as const

t.test('values that were there before are no additions', { skip, timeout: 300_000 }, async (t) => {
  const assets = process.env.KUBEBUILDER_ASSETS ?? ''
  const ground = await Ground.start(t)
  const processes = await Processes.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const side = new DriftSide(ground)
  const { kubeconfig } = ground.controlPlane
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig, namespace: 'shop' })
  /** Applies an object as kubectl has read it, or with a change. @returns the time of kubectl's entry */
  const reapply = async ({ kind, name }: ObjectKey, change?: (copy: Live) => void, manager = 'kubectl') => {
    const read = JSON.parse(await kubectl.ok(['get', kind.toLowerCase(), name, '-o', 'json']))
    const stdin = JSON.stringify(change ? edited(read, change) : read)
    await kubectl.ok(['apply', '--server-side', `--field-manager=${manager}`, '-f', '-'], { stdin })
  }
  const entryOf = async (key: ObjectKey, manager = 'kubectl') =>
    entriesOf(await ground.get(key)).find((one) => one.manager === manager && one.operation === 'Apply')
  const selector = (copy: Live) => {
    copy.spec.template.spec.nodeSelector = { disk: 'ssd' }
  }
  const added = 'added .spec.template.spec.nodeSelector - -> {"disk":"ssd"} by kubectl'

  for (const kind of kinds) {
    await t.test(kind, async (t) => {
      const applied = await side.apply(toldKey(kind, 'same'), toldManifest(kind, 'same'))
      for (const about of ['at first', 'again']) {
        await reapply(applied.key)
        const entry = await entryOf(applied.key)
        t.ok(entry)
        t.equal(textAt(entry, 'time'), '', 'an apply that changes only ownership has no time')
        t.strictSame(await side.reasons(applied), [], `no comparison: ${about}`)
        t.strictSame(await side.reasons(applied, false), [], `nor by a new leader: ${about}`)
        t.strictSame(await side.drift(applied), ['inOrder'], about)
      }
    })
  }

  await t.test('a field that is added in between is told alone, and stays so', async (t) => {
    const applied = await side.apply(toldKey('Deployment', 'edited'), toldManifest('Deployment', 'edited'))
    await reapply(applied.key, selector)
    t.not(textAt(await entryOf(applied.key), 'time'), '')
    t.strictSame(await side.reasons(applied), ['added'])
    for (let i = 0; i < 2; i++) t.strictSame(await side.drift(applied), [added])
    await reapply(applied.key)
    t.strictSame(await side.drift(applied), [added], 'another apply of the same leaves the time')
    await reapply(applied.key, undefined, 'kubectl-copy')
    t.equal(textAt(await entryOf(applied.key, 'kubectl-copy'), 'time'), '')
    t.ok((await side.drift(applied)).includes(added), 'a second tool that agrees does not hide it')
  })

  await t.test('also after an apply of the same', async (t) => {
    const applied = await side.apply(toldKey('Deployment', 'later'), toldManifest('Deployment', 'later'))
    await reapply(applied.key)
    await reapply(applied.key, selector)
    t.strictSame(await side.drift(applied), [added])
    await side.edit(applied.key, { spec: { paused: true } })
    t.strictSame((await side.drift(applied)).toSorted(), ['added .spec.paused - -> true by kubectl-edit', added])
  })

  await t.test('a running agent: no row, also after a scan; a field that is added then has one', async (t) => {
    const project = new ProjectKas(561n)
    const source = { id: 'platform/shop', default_namespace: 'shop', drift: { mode: 'report' } } as const
    const agent = await startGitops(t, ground, project, { manifest_projects: [source] })
    const state = () => project.states.findLast((one) => one.source === '42-561')
    const key = toldKey('Deployment', 'told')
    project.push({ 'told.yaml': JSON.stringify(toldManifest('Deployment', 'told')) })
    await eventually(() => state()?.phase === Phase.SYNCED && state()?.commit === project.commit)
    await reapply(key)
    const scan = () => askForDrift(agent.methods(), { source: '42-561', scan: true })
    for (let i = 0; i < 2; i++) {
      const { objects, end } = await scan()
      t.strictSame([objects, end?.compared], [[], 1])
    }
    t.equal(state()?.drifted.length, 0)
    await reapply(key, selector)
    await eventually(() => state()?.drifted.length === 1)
    t.match(state()?.drifted[0], { path: ['.spec.template.spec.nodeSelector'], manager: 'kubectl', operation: 'Apply' })
    t.equal((await scan()).objects[0]?.field.length, 1)
    await agent.stop()
  })
})
