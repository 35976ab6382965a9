/** A caller who previews changes without a pause. Asked over IPC (`PreviewQuestion`). */
import { Readable } from 'node:stream'
import { pack } from 'tar-stream'
import { Pool } from 'undici'
import type { Target } from '../hop/load.ts'
import { filesOf, type Kind } from './layout.ts'

export interface PreviewQuestion {
  readonly kind: Kind
  /** previews at once */
  readonly width: number
  /** ends after this time, or after so many previews. The other one: 0 */
  readonly seconds: number
  readonly previews: number
}

export interface Previewed {
  /** answers by HTTP status; those that are refused before the body ends count as `cut` */
  readonly statuses: Readonly<Record<string, number>>
  /** begin of the first answer of each status but 200 */
  readonly texts: Readonly<Record<string, string>>
  /** of each answer, in their order. ms */
  readonly ms: readonly number[]
}

/** characters of an answer that are shown */
const shownCharacters = 500

const target = JSON.parse(process.argv[2] ?? '') as Target
const pool = new Pool(target.origin, { connections: 16 })
const tars = new Map<Kind, Promise<Buffer>>()

process.on('message', async (question: PreviewQuestion) => process.send?.(await preview(question)))
process.on('disconnect', () => process.exit())
process.send?.('ready')

async function preview({ kind, width, seconds, previews }: PreviewQuestion): Promise<Previewed> {
  const statuses: Record<string, number> = {}
  const texts: Record<string, string> = {}
  const ms: number[] = []
  const end = performance.now() + seconds * 1000
  let left = previews
  const worker = async () => {
    while (previews > 0 ? left-- > 0 : performance.now() < end) {
      const begun = performance.now()
      const { status, text } = await answerTo(kind)
      statuses[status] = (statuses[status] ?? 0) + 1
      if (status !== '200') texts[status] ??= text.slice(0, shownCharacters)
      ms.push(performance.now() - begun)
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return { statuses, texts, ms }
}

async function answerTo(kind: Kind): Promise<{ status: string; text: string }> {
  const { path, headers } = target
  const body = kind === 'tar' ? Readable.from(endless()) : await tarOf(kind)
  try {
    const answer = await pool.request({ path, method: 'POST', headers, body })
    return { status: String(answer.statusCode), text: await answer.body.text() }
  } catch (error) {
    if (kind === 'tar') return { status: 'cut', text: String(error) }
    throw error
  }
}

function tarOf(kind: Exclude<Kind, 'tar'>): Promise<Buffer> {
  const known = tars.get(kind) ?? packed(filesOf(kind))
  tars.set(kind, known)
  return known
}

async function packed(files: Record<string, string>): Promise<Buffer> {
  const tar = pack()
  for (const [name, text] of Object.entries(files)) tar.entry({ name }, text)
  tar.finalize()
  const parts: Buffer[] = []
  for await (const part of tar) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

/** Yields empty files of the source, a thousand at a time. */
async function* endless(): AsyncGenerator<Buffer> {
  for (let from = 0; ; from += 1000) {
    const tar = pack()
    for (let i = from; i < from + 1000; i++) tar.entry({ name: `tenant/${i}.yaml` }, '')
    const parts: Buffer[] = []
    tar.finalize()
    for await (const part of tar) parts.push(part as Buffer)
    yield Buffer.concat(parts).subarray(0, -1024) // without the end
  }
}
