import t from 'tap'
import { readBlock } from '../../../../../src/agentk/modules/gitops/source-options.ts'
import { gitopsBlock } from '../../../../../src/kas/modules/gitops/schema.ts'
import type { GitopsBlock } from '../../../../../src/proto/gitops/schema.ts'

const forOlder = (block: GitopsBlock) => gitopsBlock.older?.block(block)

t.test('an agentk without drift refuses each source that has it, by name, and takes the others', async (t) => {
  const drift = { mode: 'report' } as const
  const manifest_projects = [{ id: 'a/b' }, { id: 'a/b', name: 'kept', drift }, { name: 'own', drift: {} }]
  const { sources, unreadable } = readBlock(forOlder({ manifest_projects }))
  t.strictSame(
    sources.map(({ block }) => block),
    [{ id: 'a/b' }],
  )
  t.match(unreadable, [
    { project: 'a/b', name: 'kept', problem: /reconcile_timeout: found "none: an agentk that knows drift is needed/ },
    { name: 'own', problem: /update it/ },
  ])
})

t.test('a block without drift is the same for all', async (t) => {
  t.equal(forOlder({}), undefined)
  t.equal(forOlder({ manifest_projects: [{ id: 'a/b' }] }), undefined)
  t.strictSame(forOlder({ drift: { mode: 'none' }, manifest_projects: [] }), { manifest_projects: [] })
})
