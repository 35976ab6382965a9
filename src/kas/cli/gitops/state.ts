import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import * as z from 'zod'
import { printable } from '../../../lib/printable.ts'
import { BadAnswer, readAnswer } from '../bad-answer.ts'
import type { Endpoint } from '../views/endpoint.ts'

/** kas answers with 3 MiB at most */
const maxBodyBytes = 4 * 1024 * 1024
/** what a JSON of kas is nested */
const maxDepth = 32
/** characters of what stands in a column */
const maxCell = 1024
const maxSources = 10_000
/** characters of an answer that is no state */
const maxStatusText = 300
const timeoutMs = 15_000

const cell = z.string().max(maxCell)
const key = z.looseObject({ kind: z.string(), namespace: z.string(), name: z.string() })
const counts = z.looseObject({ objects: z.int(), applied: z.int(), unchanged: z.int(), failed: z.int() })
const trouble = z.looseObject({ key: key.optional(), text: z.string(), file: z.string(), line: z.int() })

/** of `GET <prefix>gitops/state` (doc/gitops.md), with what else stands there */
const source = z.looseObject({
  source: cell,
  commit: cell,
  wanted: cell,
  phase: cell,
  problem: z.string(),
  counts: counts.optional(),
  trouble: z.array(trouble),
  stale: z.boolean(),
})
const state = z.object({ sources: z.array(source).max(maxSources) })

export type ShownSource = z.output<typeof source>

/** @throws BadAnswer, Error with what kas answered */
export async function askState({ url: views, authorization, tls }: Endpoint): Promise<readonly ShownSource[]> {
  const url = new URL(views)
  url.protocol = views.protocol === 'ws:' ? 'http:' : 'https:'
  url.pathname = views.pathname.replace(/views$/, 'gitops/state')
  const request = url.protocol === 'http:' ? requestHttp : requestHttps
  const signal = AbortSignal.timeout(timeoutMs)
  const answer = await new Promise<{ status: number; body: string }>((resolve, reject) => {
    const headers = { authorization, accept: 'application/json' }
    const asked = request(url, { ...tls, signal, headers }, (response) => {
      bodyOf(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject)
    })
    asked.on('error', reject).end()
  })
  if (answer.status !== 200) throw new Error(printable(`kas answered ${answer.status}: ${messageOf(answer.body)}`))
  return readState(answer.body)
}

/** @throws BadAnswer that says which key is wrong, and no value */
export function readState(body: string): readonly ShownSource[] {
  if (depthOf(body) > maxDepth) throw new BadAnswer(`it is nested more than ${maxDepth} deep`)
  return readAnswer(state, body).sources
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBodyBytes) throw new BadAnswer(`it has more than ${maxBodyBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Brackets that are open at once, outside of strings. */
function depthOf(json: string): number {
  let depth = 0
  let deepest = 0
  let isText = false
  for (let i = 0; i < json.length; i++) {
    const sign = json[i]
    if (sign === '"') isText = !isText
    else if (isText) i += sign === '\\' ? 1 : 0
    else if (sign === '[' || sign === '{') deepest = Math.max(deepest, ++depth)
    else if (sign === ']' || sign === '}') depth--
  }
  return deepest
}

/** Of a `Status` of Kubernetes. */
function messageOf(body: string): string {
  try {
    return String((JSON.parse(body) as { message?: unknown }).message).slice(0, maxStatusText)
  } catch {
    return body.slice(0, maxStatusText)
  }
}
