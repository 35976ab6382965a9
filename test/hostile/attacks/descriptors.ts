import { create } from '@bufbuild/protobuf'
import { abortable } from '../../../src/lib/signals.ts'
import { AgentDescriptorSchema } from '../../../src/proto/gen/info_pb.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import { type Attack, over } from '../attack.ts'
import { dialAgent, heard } from '../stage.ts'

interface Size {
  /** methods of one service with a long name, in one descriptor */
  readonly methods: number
  /** different descriptors on one connection, each with as many methods as kas allows */
  readonly descriptors: number
}

/** V8 uses the length as hash of a longer string, so a set has to compare all of these */
const nameLength = 16_500
const allowedMethods = 250

/**
 * Makes one name for the service, and one of a fixed length for each method: `/service/method` is long for all of them.
 */
function descriptor(first: string, methods: number): Uint8Array {
  const name = first.padEnd(nameLength, 'x')
  const services = [{ name, methods: Array.from({ length: methods }, (_, i) => ({ name: String(10_000 + i) })) }]
  return encodeConnectRequest.descriptor(create(AgentDescriptorSchema, { services }))
}

async function refusalOf(agent: FakeAgent, bytes: Uint8Array, signal: AbortSignal): Promise<string> {
  const tunnel = agent.openSilently()
  tunnel.send(bytes)
  const refused = tunnel.done.then(({ error }) => error?.message ?? 'OK')
  const taken = heard(agent).then(() => 'it was taken') // kas does not answer then
  return abortable(Promise.race([refused, taken]), signal)
}

export const descriptors: Attack<Size> = {
  name: 'descriptors',
  what: 'a descriptor with thousands of long method names, and many different ones on one connection',
  refusal: /descriptor|method/,
  counter: 'kas_agents_refused_total{reason="invalid_message"}',
  cheap: { methods: 4500, descriptors: 16 },
  full: { methods: 4500, descriptors: 64 },
  async play(stage, { methods, descriptors }, signal) {
    const [one, other] = [await dialAgent(stage, stage.holder), await dialAgent(stage, stage.holder)]
    try {
      for (let i = 0; i < descriptors; i++) await refusalOf(one, descriptor(`s${i}.`, allowedMethods), signal)
      return over(await refusalOf(other, descriptor('s.', methods), signal))
    } finally {
      one.close()
      other.close()
    }
  },
}
