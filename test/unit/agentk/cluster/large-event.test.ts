import t from 'tap'
import { LargeEventReader } from '../../../../src/agentk/cluster/large-event.ts'

function read(line: string, pieceBytes = 1) {
  const reader = new LargeEventReader()
  const bytes = Buffer.from(line)
  for (let at = 0; at < bytes.length; at += pieceBytes) reader.add(bytes.subarray(at, at + pieceBytes))
  return reader.read()
}

const place = { namespace: 'shop', name: 'web', uid: 'u-1' }

t.test('which object an event is about, wherever it stands, however the line is cut', (t) => {
  const odd = {
    name: 'no',
    uid: 'no',
    namespace: 'no',
    metadata: { ...place, name: 'no' },
    list: ['name', 'no', '{"name":'],
  }
  const metadata = { annotations: odd, ...place, managedFields: [odd, [odd]], labels: { name: 'no' } }
  for (const event of [
    { type: 'ADDED', object: { kind: 'Pod', metadata, spec: odd } },
    { object: { data: odd, list: ['metadata', { metadata: odd }], metadata, name: 'no' }, name: 'no', type: 'ADDED' },
  ]) {
    for (const pieceBytes of [1, 7, 10_000])
      t.strictSame(read(JSON.stringify(event), pieceBytes), { type: 'ADDED', ...place })
    t.strictSame(read(JSON.stringify(event, undefined, 2)), { type: 'ADDED', ...place }, 'with spaces')
  }
  t.end()
})

t.test('texts as JSON writes them; what is absent, or no name, is empty', (t) => {
  t.equal(read('{"object":{"metadata":{"name":"a\\"\\\\\\u00fcü"}}}').name, 'a"\\üü')
  t.strictSame(read('{"object":{"metadata":{"name":7,"uid":null,"namespace":{"name":"x"}}}}'), {
    type: '',
    namespace: '',
    name: '',
    uid: '',
  })
  t.equal(read(`{"object":{"metadata":{"name":"${'x'.repeat(2000)}"}}}`).name, '')
  t.equal(read('{"object":[{"metadata":{"name":"x"}}]}').name, '')
  t.equal(read('{"object":{"metadata":{"name":"a"},"metadata.name":"x"},"object.metadata":{"name":"x"}}').name, 'a')
  t.end()
})
