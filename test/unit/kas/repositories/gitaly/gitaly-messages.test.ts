import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { gitalyMetadata } from '../../../../../src/kas/repositories/gitaly/gitaly-calls.ts'
import {
  CommitIsAncestorRequestSchema,
  CommitIsAncestorResponseSchema,
  CommitService,
  GetTreeEntriesRequestSchema,
  GetTreeEntriesResponseSchema,
  InfoRefsRequestSchema,
  InfoRefsResponseSchema,
  SmartHTTPService,
  TreeEntryRequestSchema,
  TreeEntryResponseSchema,
} from '../../../../../src/proto/gen/gitaly_pb.ts'

/**
 * Field numbers of Gitaly's messages by doc/reference/tunnel-protocol.md 1.20. The double uses the same schema file as
 * kas, so it cannot check them.
 */

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')
const bytes = (text: string) => Buffer.from(text)

// wire: message.gitaly.InfoRefsRequest, message.gitaly.TreeEntryRequest, message.gitaly.GetTreeEntriesRequest
// wire: message.gitaly.Repository, message.gitaly.CommitIsAncestorRequest
t.test('requests', async (t) => {
  const repository = {
    storageName: 's',
    relativePath: 'r',
    gitObjectDirectory: 'o',
    gitAlternateObjectDirectories: ['a', 'b'],
    glRepository: 'p',
    glProjectPath: 'x',
  }
  const asked = '0a 15 12 01 73 1a 01 72 22 01 6f 2a 01 61 2a 01 62 32 01 70 42 01 78'
  t.strictSame(Buffer.from(toBinary(InfoRefsRequestSchema, create(InfoRefsRequestSchema, { repository }))), hex(asked))
  const [revision, path] = [bytes('c'), bytes('f')]
  const entry = create(TreeEntryRequestSchema, { revision, path, limit: 1n, maxSize: 2n })
  t.strictSame(Buffer.from(toBinary(TreeEntryRequestSchema, entry)), hex('12 01 63 1a 01 66 20 01 28 02'))
  const entries = create(GetTreeEntriesRequestSchema, { revision, path, recursive: true, skipFlatPaths: true })
  t.strictSame(Buffer.from(toBinary(GetTreeEntriesRequestSchema, entries)), hex('12 01 63 1a 01 66 20 01 38 01'))
  const ancestor = create(CommitIsAncestorRequestSchema, { ancestorId: 'a', childId: 'c' })
  t.strictSame(Buffer.from(toBinary(CommitIsAncestorRequestSchema, ancestor)), hex('12 01 61 1a 01 63'))
})

t.test('answers', async (t) => {
  t.match(fromBinary(InfoRefsResponseSchema, hex('0a 01 64')), { data: bytes('d') })
  t.match(fromBinary(CommitIsAncestorResponseSchema, hex('08 01')), { value: true })
  const entry = { type: 1, oid: 'o', size: 5n, mode: 6, data: bytes('d') }
  t.match(fromBinary(TreeEntryResponseSchema, hex('08 01 12 01 6f 18 05 20 06 2a 01 64')), entry)
  const listed = hex('0a 10 0a 01 6f 1a 01 70 20 03 28 06 32 01 63 3a 01 66')
  const { entries } = fromBinary(GetTreeEntriesResponseSchema, listed)
  t.match(entries, [{ oid: 'o', path: bytes('p'), type: 3, mode: 6, commitOid: 'c', flatPath: bytes('f') }])
})

// wire: gitaly.InfoRefsUploadPack, gitaly.TreeEntry, gitaly.GetTreeEntries, gitaly.CommitIsAncestor
t.test('methods', async (t) => {
  const named = [SmartHTTPService.method.infoRefsUploadPack, ...Object.values(CommitService.method)]
  t.strictSame(
    named.map(({ parent, name, methodKind }) => `/${parent.typeName}/${name} ${methodKind}`),
    [
      '/gitaly.SmartHTTPService/InfoRefsUploadPack server_streaming',
      '/gitaly.CommitService/CommitIsAncestor unary',
      '/gitaly.CommitService/TreeEntry server_streaming',
      '/gitaly.CommitService/GetTreeEntries server_streaming',
    ],
  )
})

// wire: gitaly.token, gitaly.features
t.test('metadata', async (t) => {
  const at = Date.parse('2026-06-01T00:00:00.900Z')
  // printf 1780272000 | openssl dgst -sha256 -hmac secret
  const hmac = '6ada98c5ec70ba0841a7031a14117aeb8dd6f91e90f807fa0b2deef6bffc8c7e'
  t.strictSame(gitalyMetadata({ token: 'secret', features: { 'Gitaly-Feature-X': 'true' } }, at), {
    'gitaly-feature-x': ['true'],
    authorization: [`Bearer v2.${hmac}.1780272000`],
  })
  const features = { 'x\ny': '1', x: 'a\nb', 'a-bin': 'AA', 'grpc-timeout': '1', '': '1', ':path': '1', ok: '' }
  t.strictSame(gitalyMetadata({ token: '', features }, at), { ok: [''] })
})
