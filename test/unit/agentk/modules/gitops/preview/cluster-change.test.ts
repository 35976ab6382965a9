import t from 'tap'
import { withoutDrift } from '../../../../../../src/agentk/modules/gitops/preview/cluster-change.ts'

const change = (name: string) => ({ path: ['f:spec', `f:${name}`], kind: 'changed' as const, before: 1, after: 2 })

t.test('without an earlier manifest, drift is apart, and hides no change of Git', async (t) => {
  const changes = [change('image'), change('replicas')]
  t.strictSame(withoutDrift(changes, new Set()), changes)
  t.strictSame(withoutDrift(changes, new Set(['.spec.replicas'])), [change('image')])
  t.strictSame(withoutDrift([change('image')], new Set(['.spec.image'])), [change('image')], 'the change is there')
})
