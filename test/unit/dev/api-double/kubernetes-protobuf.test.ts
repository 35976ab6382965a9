import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import t from 'tap'
import { decodeKubernetesProtobuf } from '../../../../dev/api-double/kubernetes-protobuf.ts'

type Write = (writer: BinaryWriter) => BinaryWriter
const bytes = (write: Write) => write(new BinaryWriter()).finish()
const nested = (number: number, write: Write) => (w: BinaryWriter) =>
  w.tag(number, WireType.LengthDelimited).bytes(bytes(write))
const text = (number: number, value: string) => (w: BinaryWriter) =>
  w.tag(number, WireType.LengthDelimited).string(value)
const all =
  (...writes: Write[]): Write =>
  (w) =>
    writes.reduce((writer, write) => write(writer), w)
const envelope = (kind: string, raw: Write) =>
  Buffer.concat([
    Buffer.from('k8s\0'),
    bytes(all(nested(1, all(text(1, 'v1'), text(2, kind))), nested(2, raw), text(4, ''))),
  ])

t.test('a ConfigMap as a client in Go writes it', async (t) => {
  const metadata = all(
    text(1, 'a'),
    text(2, ''),
    text(3, 'demo'),
    nested(8, (w) => w),
    nested(11, all(text(1, 'k'), text(2, 'v'))),
  )
  const data = all(nested(2, all(text(1, 'x'), text(2, '1'))), nested(2, all(text(1, 'y'), text(2, '2'))))
  const binary = nested(3, all(text(1, 'b'), text(2, 'hi')))
  const immutable: Write = (w) => w.tag(4, WireType.Varint).bool(true)
  t.same(decodeKubernetesProtobuf(envelope('ConfigMap', all(nested(1, metadata), data, binary, immutable))), {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'a', namespace: 'demo', labels: { k: 'v' } },
    data: { x: '1', y: '2' },
    binaryData: { b: 'aGk=' },
    immutable: true,
  })
})

t.test('an access review', async (t) => {
  const attributes = all(text(1, 'demo'), text(2, 'list'), text(5, 'pods'))
  const review = decodeKubernetesProtobuf(envelope('SelfSubjectAccessReview', nested(2, nested(1, attributes))))
  t.same(review.spec, { resourceAttributes: { namespace: 'demo', verb: 'list', resource: 'pods' } })
})

t.test('anything else is refused', async (t) => {
  t.throws(() => decodeKubernetesProtobuf(Buffer.from('{}')), { code: 400 })
  t.throws(() => decodeKubernetesProtobuf(envelope('Pod', (w) => w)), { code: 415 })
  t.throws(() => decodeKubernetesProtobuf(envelope('ConfigMap', text(1, 'x')).subarray(0, -3)), { code: 400 })
  t.throws(() => decodeKubernetesProtobuf(envelope('ConfigMap', (w) => w.tag(2, WireType.Varint).uint32(1))), {
    code: 400,
  })
})
