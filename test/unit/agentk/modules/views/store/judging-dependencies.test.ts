import t from 'tap'
import { JudgingDependencies, reads } from '../../../../../../src/agentk/modules/views/store/judging-dependencies.ts'
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'

/** A Pod of the ReplicaSet `set`, as far as dependencies read it. */
const pod = (more: Partial<ObjectRecord> = {}) =>
  ({
    uid: 'p',
    kind: { key: 'Pod' },
    namespace: 'shop',
    name: 'p',
    owner: { kind: 'apps/ReplicaSet', name: 'set', uid: 'set' },
    references: [],
    traits: undefined,
    ...more,
  }) as unknown as ObjectRecord

t.test('of who reads only how children end, Pods that come, run and go affect none', async (t) => {
  const dependencies = new JudgingDependencies()
  dependencies.set('set', new Set([reads.endedOf('set')]))
  const affected = (before?: ObjectRecord, after?: ObjectRecord) => [...dependencies.changedBy({ before, after })]
  const running = pod()
  const failed = pod({ traits: { status: { phase: 'Failed', reason: 'Evicted' } } })
  const deleted = pod({ traits: { metadata: { deletionTimestamp: 'deleted' } } })
  t.strictSame(affected(undefined, running), [])
  t.strictSame(affected(running, pod({ node: 'n' })), [])
  t.strictSame(affected(running, undefined), [])
  t.strictSame(affected(undefined, failed), [reads.endedOf('set')])
  t.strictSame(affected(running, deleted), [reads.endedOf('set')])
  t.strictSame(affected(deleted, undefined), [reads.endedOf('set')])
  t.ok(affected(failed, pod({ owner: undefined })).includes(reads.endedOf('set')), 'it has left its owner')
})

t.test('who reads all children is affected by each that comes or goes', async (t) => {
  const dependencies = new JudgingDependencies()
  dependencies.set('set', new Set([reads.childrenOf('set')]))
  t.strictSame([...dependencies.changedBy({ before: undefined, after: pod() })], [reads.childrenOf('set')])
  dependencies.delete('set')
  t.strictSame([...dependencies.changedBy({ before: undefined, after: pod() })], [])
})
