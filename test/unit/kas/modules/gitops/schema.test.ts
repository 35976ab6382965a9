import t from 'tap'
import * as z from 'zod'
import { readBlock } from '../../../../../src/agentk/modules/gitops/source-options.ts'
import { parseAgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-file.ts'
import { gitopsBlock } from '../../../../../src/kas/modules/gitops/schema.ts'
import type { GitopsBlock } from '../../../../../src/proto/gitops/schema.ts'
import { olderSourceSchema } from '../../../../support/older-source-schema.ts'

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

t.test('stock agentk gets a source with each mode only if it would do the same', async (t) => {
  const sentTo = (drift: object) => {
    const text = JSON.stringify({ gitops: { manifest_projects: [{ id: 'a/b', drift }] } })
    return parseAgentConfiguration('config.yaml', Buffer.from(text), [{ block: gitopsBlock }]).file.gitops
  }
  t.match(sentTo({}), { manifestProjects: [{ id: 'a/b' }] }, 'it corrects, as the default does')
  t.match(sentTo({ mode: 'correct', after: '60s', scan: '600s' }), { manifestProjects: [{ id: 'a/b' }] })
  const others = [{ mode: 'report' }, { mode: 'none' }, { added_by: ['k9s'] }, { ignore: [{ managers: ['a'] }] }]
  for (const drift of others) t.strictSame(sentTo(drift)?.manifestProjects ?? [], [], JSON.stringify(drift))
})

t.test('an older kas refuses a file with drift, so that nothing is applied in another mode', async (t) => {
  const schema = z.object({ manifest_projects: z.array(olderSourceSchema).exactOptional() })
  const { older: _, forStock: __, ...rest } = gitopsBlock
  const read = (gitops: object, block: unknown) =>
    parseAgentConfiguration('config.yaml', Buffer.from(JSON.stringify({ gitops })), [{ block: block as never }])
  const olderBlock = { ...rest, schema }
  for (const mode of ['correct', 'report', 'none']) {
    t.throws(() => read({ drift: { mode } }, olderBlock), /drift: this key is not known/, mode)
    const manifest_projects = [{ id: 'a/b', drift: { mode } }]
    t.throws(() => read({ manifest_projects }, olderBlock), /drift: this key is not known/, mode)
    t.doesNotThrow(() => read({ manifest_projects }, gitopsBlock))
  }
  t.doesNotThrow(() => read({ manifest_projects: [{ id: 'a/b' }] }, olderBlock))
})

t.test('preview is for kas alone: no agent gets it, and each source has that of gitops', async (t) => {
  const sources = [{ id: 'a/b' }, { id: 'a/b', name: 'own', preview: { projects: [7] } }]
  const file = { gitops: { preview: 'none', manifest_projects: sources } }
  const read = parseAgentConfiguration('config.yaml', Buffer.from(JSON.stringify(file)), [{ block: gitopsBlock }])
  const value = JSON.parse(read.blocks.get('gitops') ?? '') as GitopsBlock
  t.match(value, { manifest_projects: [{ preview: 'none' }, { preview: { projects: [7] } }] })
  const plain = { manifest_projects: [{ id: 'a/b' }, { id: 'a/b', name: 'own' }] }
  t.strictSame(gitopsBlock.forAgents?.(value), plain)
  t.strictSame(gitopsBlock.forStock?.(value), { manifest_projects: [{ id: 'a/b' }, { id: 'a/b' }] })
  const { unreadable, sources: known } = readBlock(gitopsBlock.forAgents?.(value))
  t.strictSame([unreadable, known.length], [[], 2])
  t.notMatch(JSON.stringify(forOlder({ ...value, drift: { mode: 'report' } })), 'preview')
})

t.test('preview: other values are refused, and what is allowed is said', async (t) => {
  const read = (preview: unknown) => {
    const file = JSON.stringify({ gitops: { manifest_projects: [{ preview }] } })
    return parseAgentConfiguration('config.yaml', Buffer.from(file), [{ block: gitopsBlock }])
  }
  t.throws(() => read('all'), /preview: found "all", allowed: none, or projects: a list of numbers/)
  for (const preview of [{}, { projects: [] }, { projects: ['a/b'] }, { projects: [7], user: [1] }, [7]]) {
    t.throws(() => read(preview), /manifest_projects\[0\]\.preview.*found/, JSON.stringify(preview))
  }
  t.doesNotThrow(() => read({ projects: [7, 8] }))
})
