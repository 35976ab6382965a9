import t from 'tap'
import { fromGrpc, toGrpc } from '../../../../../src/kas/servers/rails/grpc-metadata.ts'

t.test('metadata comes through both ways, binary values as base64', async (t) => {
  const metadata = { plain: ['a', 'b'], 'x-bin': [Buffer.from([0, 200]).toString('base64')], empty: [''] }
  t.strictSame({ ...fromGrpc(toGrpc(metadata)) }, metadata)
  t.equal(fromGrpc(toGrpc({})).constructor, undefined)
})

t.test('what HTTP/2 or gRPC would refuse, or take for its own, is left out', async (t) => {
  const sent = toGrpc({
    connection: ['close'],
    'content-length': ['5'],
    te: ['gzip'],
    'grpc-status': ['7'],
    ':path': ['/'],
    Upper: ['x'],
    'a b': ['x'],
    line: ['a\r\nb'],
    word: ['größe'],
    etag: ['1', '2'],
    kept: ['1', '2'],
  })
  t.strictSame({ ...fromGrpc(sent) }, { etag: ['1'], kept: ['1', '2'] })
})
