import type { OutgoingHttpHeaders } from 'node:http2'
import t from 'tap'
import type { Metadata } from '../../../../src/call/call.ts'
import { Code, KasError } from '../../../../src/lib/errors.ts'
import { readStatus, writeMetadata, writeStatus } from '../../../../src/proto/grpc/headers.ts'
import {
  encodeStatusText,
  maxMetadataBytes,
  maxMetadataValues,
  maxStatusDetailsBytes,
  maxStatusTextBytes,
  metadataCut,
} from '../../../../src/proto/grpc/sendable.ts'

function written(metadata: Metadata): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {}
  writeMetadata(headers, metadata)
  return headers
}

t.test('names that HTTP/2 does not take, or that are not true of the next hop, are left out', async (t) => {
  const names = ['', 'a b', 'A', 'x\0y', 'x\ny', 'é', ':path', 'a:b', 'grpc-status', 'grpc-timeout']
  const hop = ['connection', 'content-length', 'host', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'user-agent']
  t.same(written(Object.fromEntries([...names, ...hop].map((name) => [name, ['x']]))), {})
  t.same(written({ 'a.b_c-1': ['x'], constructor: ['y'] }), { 'a.b_c-1': 'x', constructor: 'y' })
})

t.test('values that would end early or begin another header are left out, their name is kept', async (t) => {
  const bad = ['a\0b', 'a\nb', 'a\r\nb: c', 'a\x7f', 'a\x01', '\u0100']
  t.same(written({ k: [...bad, 'good', '\xff\t'] }), { k: ['good', '\xff\t'] })
  t.same(written({ k: bad }), {})
})

t.test('of what node takes once alone, the first is sent', async (t) => {
  t.same(written({ age: ['1', '2'], other: ['1', '2'], 'b-bin': ['YQ==', 'Yg=='] }), {
    age: '1',
    other: ['1', '2'],
    'b-bin': 'YQ==,Yg==',
  })
})

t.test('what is too much is cut, with a mark', async (t) => {
  const headers = written({ first: ['1'], large: ['x'.repeat(maxMetadataBytes)], last: ['2'] })
  t.same(headers, { first: '1', last: '2', 'metadata-cut': metadataCut })
  const many = written({ k: Array.from({ length: maxMetadataValues + 1 }, () => 'v') })
  t.equal((many.k as string[]).length, maxMetadataValues)
  t.same(many['metadata-cut'], metadataCut)
})

t.test('a status text fits its bound however it is encoded', async (t) => {
  for (const letter of ['x', '%', '\n', 'é', '漢', '🙂', '\ud800']) {
    for (const length of [1, 1000, 8192, 70_000]) {
      const encoded = encodeStatusText(letter.repeat(length))
      t.ok(encoded.length <= maxStatusTextBytes, `${JSON.stringify(letter)} ${length}`)
      t.match(encoded, /^[\x20-\x7e]*$/)
      t.doesNotThrow(() => decodeURIComponent(encoded))
    }
  }
  t.equal(encodeStatusText('100 %'), '100 %25')
})

t.test('details that are too large are left out, the text stays', async (t) => {
  const status = (bytes: number) => {
    const headers: OutgoingHttpHeaders = {}
    const details = new Uint8Array(bytes)
    writeStatus(headers, new KasError({ code: 'STATUS', grpc: Code.NOT_FOUND, message: 'm', details }))
    const spec = readStatus(headers as never)?.spec
    return spec?.code === 'STATUS' ? [spec.grpc, spec.message, spec.details?.length] : []
  }
  t.same(status(maxStatusDetailsBytes), [Code.NOT_FOUND, 'm', maxStatusDetailsBytes])
  t.same(status(maxStatusDetailsBytes + 1), [Code.NOT_FOUND, 'm', undefined])
})
