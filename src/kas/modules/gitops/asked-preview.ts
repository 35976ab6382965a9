import { KasError } from '../../../lib/errors.ts'
import type { PreviewEnd, PreviewedObject } from '../../../proto/gen/gitops_preview_pb.ts'
import { maxObjects } from '../../../proto/gitops/limits.ts'
import type { AgentQuestions, AskedPreview, Asker } from './agent-questions.ts'
import { hideValues } from './preview/hide-values.ts'
import { objectLine } from './preview/ndjson-format.ts'
import type { Preview } from './preview/preview.ts'

/** Bytes of the objects in one answer, as lines of JSON; those without a place are counted. */
const maxObjectBytes = 3 * 1024 * 1024
/** Objects that an agent sends: those of the commit, and as many that leave or have drifted. */
const maxSent = 2 * maxObjects
/** Limit of a text about the whole; a longer one is cut. Characters */
const maxTextLength = 2000
/** Limit of a number of objects: a uint32. */
const maxCount = 2 ** 32 - 1

/**
 * Asks the agent for a preview.
 *
 * @throws KasError of the question; INVALID_MESSAGE: the agent does not end its answer, or sends more than is allowed
 */
export async function readPreview(
  questions: Pick<AgentQuestions, 'preview'>,
  asker: Asker,
  asked: AskedPreview,
): Promise<Preview> {
  const { source, values } = asked
  const objects: PreviewedObject[] = []
  let [bytes, received] = [0, 0]
  for await (const { what } of questions.preview(asker, asked)) {
    if (what.case === 'end') {
      const preview = { source, objects, end: shownEnd(what.value, received - objects.length) }
      return values ? preview : hideValues(preview)
    }
    received += 1
    if (received > maxSent) throw invalid(`more than ${maxSent} objects`)
    if (what.case !== 'object') continue
    bytes += Buffer.byteLength(objectLine(what.value))
    if (bytes <= maxObjectBytes) objects.push(what.value)
  }
  throw invalid('the agent has not ended its answer')
}

/** @param left - objects that have come and have no place */
function shownEnd(end: PreviewEnd, left: number): PreviewEnd {
  const { refusal } = end
  return {
    ...end,
    cut: Math.min(end.cut + left, maxCount),
    commit: shortened(end.commit),
    problem: shortened(end.problem),
    ...(refusal && { refusal: { ...refusal, text: shortened(refusal.text), file: shortened(refusal.file) } }),
  }
}

function shortened(text: string): string {
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength)}…` : text
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
