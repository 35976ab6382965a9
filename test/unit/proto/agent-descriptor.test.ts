import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { decodeDescriptor, descriptorBounds } from '../../../src/proto/agent-descriptor.ts'
import { AgentDescriptorSchema } from '../../../src/proto/gen/info_pb.ts'
import { decodeConnectRequest, encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { encoded } from '../../support/rewritten-message.ts'

const { bytes: maxBytes, services: maxServices, methods: maxMethods, nameBytes, namesBytes } = descriptorBounds

interface Named {
  readonly name: string
  readonly methods: readonly string[]
}
const descriptor = (...services: Named[]) =>
  toBinary(
    AgentDescriptorSchema,
    create(AgentDescriptorSchema, {
      services: services.map(({ name, methods }) => ({ name, methods: methods.map((method) => ({ name: method })) })),
    }),
  )
const numbers = (count: number) => Array.from({ length: count }, (_, i) => String(i))
const invalid = (detail: string) => ({ code: 'INVALID_MESSAGE', message: `the descriptor names ${detail}` })

t.test('all that an agent may name comes through', async (t) => {
  const longest = 'x'.repeat(nameBytes - '/s/'.length)
  for (const services of [
    [],
    [{ name: 's', methods: numbers(maxMethods) }],
    numbers(maxServices).map((name) => ({ name, methods: [name] })),
    [{ name: 's', methods: [longest] }],
    [{ name: 'ü', methods: ['ß', ''] }],
  ]) {
    const read = decodeDescriptor(descriptor(...services))
    t.same(
      read.services.map(({ name, methods }) => ({ name, methods: methods.map((method) => method.name) })),
      services,
    )
  }
})

t.test('what is beyond a bound is refused, with what there is and what is allowed', async (t) => {
  const long = 's'.repeat(29_000)
  const few = namesBytes / nameBytes + 1
  const cases: [services: Named[], refusal: string][] = [
    [[{ name: 's', methods: numbers(maxMethods + 1) }], `more than ${maxMethods} methods, allowed: ${maxMethods}`],
    [[{ name: 's', methods: Array(20_000).fill('') }], `more than ${maxMethods} methods, allowed: ${maxMethods}`],
    [
      numbers(maxMethods + 1).map((name) => ({ name, methods: [''] })),
      `more than ${maxServices} services, allowed: ${maxServices}`,
    ],
    [Array(20_000).fill({ name: '', methods: [] }), `more than ${maxServices} services, allowed: ${maxServices}`],
    [
      [
        { name: 'a', methods: numbers(maxMethods) },
        { name: 'b', methods: ['x'] },
      ],
      `more than ${maxMethods} methods, allowed: ${maxMethods}`,
    ],
    [[{ name: long, methods: ['do'] }], `a method of 29004 bytes, allowed: ${nameBytes}`],
    [[{ name: long, methods: [] }], `a service of 29000 bytes, allowed: ${nameBytes}`],
    [[{ name: 's', methods: [long] }], `a method of 29003 bytes, allowed: ${nameBytes}`],
    [
      [{ name: 's', methods: numbers(few).map((name) => name.padStart(nameBytes - '/s/'.length, 'x')) }],
      `methods of more than ${namesBytes} bytes, allowed: ${namesBytes}`,
    ],
  ]
  for (const [services, refusal] of cases) {
    const bytes = descriptor(...services)
    t.ok(bytes.length <= maxBytes, 'as many bytes as are read')
    t.throws(() => decodeDescriptor(bytes), invalid(refusal))
  }
  t.throws(() => decodeDescriptor(descriptor({ name: 's'.repeat(maxBytes), methods: [] })), {
    code: 'MESSAGE_TOO_LARGE',
    message: /larger than max/,
  })
})

t.test('a service whose name follows its methods is bounded too', async (t) => {
  const field = (number: number, content: Uint8Array) => ({ number, type: 2, content })
  const method = field(2, encoded([field(1, Buffer.from('do'))]))
  const service = (name: string) => encoded([field(1, encoded([method, field(1, Buffer.from(name))]))])
  t.same(decodeDescriptor(service('late')), { services: [{ name: 'late', methods: [{ name: 'do' }] }] })
  t.throws(() => decodeDescriptor(service('s'.repeat(600))), invalid(`a method of 604 bytes, allowed: ${nameBytes}`))
})

t.test('one message is read once, however many fields of its oneof it has', async (t) => {
  const header = encodeConnectRequest.header({})
  t.same(decodeConnectRequest(Buffer.concat([header, header])), { kind: 'header', meta: {}, isCut: false })
  t.throws(() => decodeConnectRequest(Buffer.concat(Array(10_000).fill(header))), {
    code: 'INVALID_MESSAGE',
    message: 'more than 16 fields of ConnectRequest.msg',
  })
})
