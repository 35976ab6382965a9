import type { OwnAnswer } from '../../own-endpoint.ts'
import { exitCode } from './preview/exit-code.ts'
import { markdownFormat } from './preview/markdown-format.ts'
import { ndjsonFormat } from './preview/ndjson-format.ts'
import type { Preview } from './preview/preview.ts'
import { endSentences } from './preview/previewed-groups.ts'
import { terraformFormat } from './preview/terraform-format.ts'
import { textFormat } from './preview/text-format.ts'

export const previewFormats = ['text', 'ndjson', 'markdown', 'terraform'] as const
export type PreviewFormat = (typeof previewFormats)[number]

const plainText = 'text/plain; charset=utf-8'

/**
 * Returns the answer of a preview.
 *
 * @returns its status: 200; 422: a refusal; 403: the caller may get none of the objects; 409: not all could be compared
 */
export function previewAnswer(preview: Preview, format: PreviewFormat): OwnAnswer {
  const status = statusOf(preview)
  const { mediaType, text } = formatted(preview, format, status)
  return { status, mediaType, body: Buffer.from(text) }
}

function statusOf({ end }: Preview): number {
  const exit = exitCode({ end })
  if (exit === 4) return 422
  if (exit !== 5) return 200
  return end.problem === '' ? 403 : 409
}

function formatted(
  preview: Preview,
  format: PreviewFormat,
  status: number,
): { readonly mediaType: string; readonly text: string } {
  if (format === 'ndjson') return { mediaType: 'application/x-ndjson', text: ndjsonFormat(preview) }
  if (format === 'markdown') return { mediaType: 'text/markdown; charset=utf-8', text: markdownFormat(preview) }
  if (format === 'text') return { mediaType: plainText, text: textFormat(preview) }
  // GitLab shows a report of a failed job too: three numbers would say that all is in order
  if (status !== 200) return { mediaType: plainText, text: `${endSentences(preview.end).join('\n')}\n` }
  return { mediaType: 'application/json', text: terraformFormat(preview) }
}
