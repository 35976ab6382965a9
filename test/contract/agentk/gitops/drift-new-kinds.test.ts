import t from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { askForDrift } from './drift-questions.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** Drift of objects whose kind the same commit defines, with a real API server. */

const widget = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'one' }, spec: { size: 1 } }
const files = { 'definition.yaml': JSON.stringify(widgetDefinition), 'widget.yaml': JSON.stringify(widget) }

t.test('a commit with a definition and its object', { skip, timeout: 60_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const project = new ProjectKas(501n)
  const drift = { mode: 'report' } as const
  const source = { id: 'platform/shop', default_namespace: 'shop', drift }
  const side = await startGitops(t, ground, project, { manifest_projects: [source] })
  const state = () => project.states.findLast((one) => one.source === '42-501')
  project.push(files)
  await eventually(() => state()?.phase === Phase.SYNCED && state()?.commit === project.commit)

  await t.test('a scan compares both', async (t) => {
    const { objects, end } = await askForDrift(side.methods(), { source: '42-501', scan: true })
    t.strictSame(objects, [])
    t.match(end, { objects: 2, compared: 2, problem: '' })
  })

  await t.test('a change of the object is reported without another round', async (t) => {
    await ground.readKinds()
    await ground.merge(keyOf('Widget', 'one', 'shop', 'example.com'), { spec: { size: 2 } }, 'kubectl-edit')
    await eventually(() => state()?.drifted.length === 1)
    t.match(state()?.drifted, [
      { kind: 'drifted', key: { kind: 'Widget' }, path: ['.spec.size'], manager: 'kubectl-edit' },
    ])
  })
})
