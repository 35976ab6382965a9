import { toJson } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import { ComparedObjectSchema, type DriftEnd, DriftEndSchema } from '../../../proto/gen/gitops_drift_pb.ts'
import { maxListed } from '../../../proto/gitops/limits.ts'
import type { OwnEndpoint, OwnRequest } from '../../own-endpoint.ts'
import type { AgentQuestions } from './agent-questions.ts'
import { sourceIdForm } from './source-row.ts'

/** Bytes of the objects in one answer; those without a place are counted. */
const maxObjectBytes = 3 * 1024 * 1024

/** Largest number of objects that an answer can count. */
const maxCount = 2 ** 32 - 1

const json = { alwaysEmitImplicit: true, useProtoFieldName: true } as const

/**
 * Serves `GET <prefix>gitops/diff?source=ID`: what differs between Git and the cluster, with values, of the objects that
 * the caller may get. `scan=true` compares each object of the source first.
 */
export function driftEndpoint(questions: Pick<AgentQuestions, 'drift'>): OwnEndpoint {
  return {
    path: '/gitops/diff',
    methods: ['GET'],
    isLong: true,
    serve: async (request) => {
      const asked = askedOf(request)
      request.shows?.(`source ${asked.source}`)
      return { status: 200, mediaType: 'application/json', body: await bodyOf(questions, request, asked) }
    },
  }
}

interface Asked {
  readonly source: string
  readonly scan: boolean
}

/** @throws KasError BAD_REQUEST */
function askedOf({ query }: Pick<OwnRequest, 'query'>): Asked {
  for (const [name, values] of query) {
    if (name !== 'source' && name !== 'scan') {
      throw bad(`the parameter ${JSON.stringify(name.slice(0, 64))} is not known: allowed are source and scan`)
    }
    if (values.length > 1) throw bad(`${name} stands more than once`)
  }
  const [source = '', scan = 'false'] = ['source', 'scan'].map((name) => query.get(name)?.[0])
  if (!sourceIdForm.test(source)) throw bad('source: allowed is the id of a source, as gitops/state has it')
  if (scan !== 'true' && scan !== 'false') throw bad('scan: allowed is true or false')
  return { source, scan: scan === 'true' }
}

/** @throws KasError of the question; INVALID_MESSAGE: the agent does not end its answer, or sends more than is allowed */
async function bodyOf(
  questions: Pick<AgentQuestions, 'drift'>,
  request: OwnRequest,
  asked: Asked,
): Promise<Uint8Array> {
  const objects: string[] = []
  let [bytes, received] = [0, 0]
  for await (const { what } of questions.drift(request, asked)) {
    if (what.case === 'end') return textOf(asked, objects, received, what.value)
    received += 1
    if (received > maxListed) throw new KasError({ code: 'INVALID_MESSAGE', detail: `more than ${maxListed} objects` })
    if (what.case !== 'object') continue
    const text = JSON.stringify(toJson(ComparedObjectSchema, what.value, json))
    bytes += Buffer.byteLength(text) + 1
    if (bytes <= maxObjectBytes) objects.push(text)
  }
  throw new KasError({ code: 'INVALID_MESSAGE', detail: 'the agent has not ended its answer' })
}

function textOf({ source, scan }: Asked, objects: readonly string[], received: number, end: DriftEnd): Uint8Array {
  const cut = Math.min(end.cut + received - objects.length, maxCount)
  const facts = toJson(DriftEndSchema, { ...end, cut }, json)
  const rest = { source, scan, ...(facts as object) }
  return Buffer.from(`{"differing":[${objects.join()}],${JSON.stringify(rest).slice(1)}`)
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}
