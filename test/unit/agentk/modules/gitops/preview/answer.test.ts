import { fromBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { messagesOf } from '../../../../../../src/agentk/modules/gitops/preview/answer.ts'
import { refusalText } from '../../../../../../src/agentk/modules/gitops/preview/refusal-words.ts'
import { shownFields } from '../../../../../../src/agentk/modules/gitops/preview/shown-fields.ts'
import { PreviewResponseSchema } from '../../../../../../src/proto/gen/gitops_preview_pb.ts'

/** Messages of a preview, and their bounds. */

const keyOf = (kind: string) => ({ group: '', kind, namespace: 'shop', name: 'one' })

t.test('all objects count, and the most important ones have room', (t) => {
  const actions = ['created', 'changed', 'adopted', 'recreated', 'deleted', 'waits', 'stays', 'fails', 'drifted']
  const objects = actions.map((action) => ({ action, unverified: action === 'created', text: 'x'.repeat(2000) }))
  const whats = Array.from(messagesOf({ objects, end: { objects: 20, notCompared: 2 } }, 2100), (bytes) => {
    return fromBinary(PreviewResponseSchema, bytes).what
  })
  t.strictSame(
    whats.flatMap((what) => (what.case === 'object' ? [what.value.action] : [])),
    ['fails', 'waits'],
  )
  const [end] = whats.flatMap((what) => (what.case === 'end' ? [what.value] : []))
  const one = { created: 1, changed: 1, adopted: 1, recreated: 1, deleted: 1, waiting: 1, staying: 1, failing: 1 }
  t.match(end, { ...one, drifted: 1, unverified: 1, cut: 7, objects: 20, notCompared: 2 })
  t.end()
})

t.test('fields of a Secret are shown without content, and beyond 20 they are counted', (t) => {
  const change = (path: string[], before: unknown, after: unknown) => ({
    path,
    kind: 'changed' as const,
    before,
    after,
  })
  const changes = [
    change(['f:data', 'f:password'], 'b2xk', 'bmV3'),
    change(['f:metadata', 'f:annotations', 'f:vendor.example/token'], 'planted', 'planted2'),
    change(['f:stringdata', 'f:planted'], undefined, 'planted'),
    change(['f:type'], 'Opaque', 'kubernetes.io/tls'),
  ]
  const { listed } = shownFields(changes, { key: keyOf('Secret'), values: true })
  t.strictSame(
    listed.map(({ path, secretKey, before, after }) => [path, secretKey, before, after]),
    [
      ['.data…', 'password', '***', '***'],
      ['.metadata.annotations.vendor.example/token', '', '***', '***'],
      ['.…', '', undefined, '***'],
      ['.type', '', '"Opaque"', '"kubernetes.io/tls"'],
    ],
  )
  const many = Array.from({ length: 25 }, (_, i) => change(['f:data', `f:${i}`], 'a', 'b'))
  const cut = shownFields(many, { key: keyOf('ConfigMap'), values: false })
  t.equal(cut.listed.length, 20)
  t.equal(cut.more, 5)
  t.ok(cut.listed.every((field) => !('before' in field) && !('after' in field)))
  t.end()
})

t.test('the text of a refusal is for callers who may patch', (t) => {
  const problem = { kind: 'invalid', text: 'spec.size: Invalid value: "planted"' } as const
  t.equal(refusalText(problem, { mayPatch: true, values: true }), problem.text)
  t.notMatch(refusalText(problem, { mayPatch: false, values: true }), /planted/)
  t.end()
})
