import t, { type Test } from 'tap'
import type { JudgedObject, Verdict } from '../../../../src/agentk/modules/gitops/apply/verdict.ts'
import type { ComparedManifest } from '../../../../src/agentk/modules/gitops/drift/kept-manifests.ts'
import { entriesOf, fieldsHash, ownEntry } from '../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { keyText } from '../../../../src/kubernetes/key.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/** A pod is lost at any call of a correction: the next round ends as if it had not been. */

const key = keyOf('ConfigMap', 'settings', 'shop')
const files = {
  'a.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\ndata: { color: green }\n',
  'b.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: other }\ndata: { color: green }\n',
}
const manager = 'kubectl-edit'

t.test('a correction that is killed at any of its calls', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const inOrder = async () => {
    const { data = {} } = await ground.get(key)
    return data.color === 'green' && data.added === undefined
  }
  /** Judges as a comparison does: an object that differs is written. */
  const judge = async ({ key: of, file, line }: ComparedManifest, { live }: JudgedObject): Promise<Verdict> => {
    if (of.name !== key.name || (await inOrder())) return { kind: 'same', live }
    const author = { manager, operation: 'Update', time: Date.now() }
    const facts = { isDeleted: false, differences: [], more: 0, by: author, since: author.time, reason: '' }
    const about = { key, version: 'v1', file, line, holdUntil: undefined, resourceVersion: live?.resourceVersion ?? '' }
    return { kind: 'write', finding: { ...about, ...facts, kind: 'drifted' } }
  }

  /** @returns number of calls of one correction */
  const killedAtEachCall = async (t: Test, projectId: bigint, kind: 'unsent' | 'unanswered'): Promise<number> => {
    const block = { drift: { added_by: ['kubectl*'] } } // two writes: the owners of added fields, then the apply
    const corrected = { judge, isDrifted: (text: string) => text === keyText(key) }
    const start = (fault?: { at: number; kind: typeof kind }) =>
      new Pod(ground, { projectId, block, ...(fault && { fault }) })
    await start().bring(files)
    for (let at = 1; ; at++) {
      const where = `${kind} ${at}`
      const change = { data: { color: 'red', added: 'yes' }, metadata: { labels: { note: where.replace(' ', '-') } } }
      await ground.merge(key, change, manager)
      const pod = start({ at, kind })
      await pod.bring(files, corrected).catch((error: unknown) => {
        if (!pod.isKilled) throw error
      })
      await pod.landed()
      const next = start()
      const { ends } = await next.bring(files, corrected)
      t.ok(await inOrder(), `${where}: it is as in Git`)
      const live = await ground.get(key)
      t.equal(live.metadata.labels.note, where.replace(' ', '-'), `${where}: the label of the same tool stays`)
      t.notOk(ends.settings?.kind === 'failed', where)
      const entry = (await next.entries()).get(keyText(key))
      const own = ownEntry(entriesOf(live), next.options.manager)
      t.match(entry, { state: 'applied', uid: live.metadata.uid, fields: fieldsHash(own?.fieldsV1 ?? {}) }, where)
      t.equal(entry?.time ?? '', String(own?.time ?? ''), `${where}: changes from now on are noticed`)
      t.ok((entry?.drift?.corrections?.length ?? 0) <= Math.min(at + 1, 3), `${where}: it counts once at the most`)
      if (!pod.isKilled) return at - 1
    }
  }

  await t.test('before it is sent', async (t) => {
    const calls = await killedAtEachCall(t, 401n, 'unsent')
    t.ok(calls > 5, `${calls} calls`)
  })

  await t.test('before its answer', async (t) => {
    await ground.client.json('DELETE', ground.path(key))
    await ground.client.json('DELETE', ground.path(keyOf('ConfigMap', 'other', 'shop')))
    const calls = await killedAtEachCall(t, 402n, 'unanswered')
    t.ok(calls > 5, `${calls} calls`)
  })
})
