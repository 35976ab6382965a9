import { printable } from '../../../../lib/printable.ts'
import type { PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'
import { fieldLines } from './field-lines.ts'
import type { Preview } from './preview.ts'
import {
  comparedText,
  endSentences,
  objectText,
  placeText,
  previewedGroups,
  problemSentences,
  remarks,
} from './previewed-groups.ts'

/** Returns a preview as text for people: problems first, then objects by action, then how many there are. */
export function textFormat({ source, objects, end }: Preview): string {
  const problems = problemSentences(end)
  const groups = previewedGroups(objects).flatMap(({ title, objects: own }) => [
    `${title}: ${own.length}`,
    ...own.flatMap(objectLines),
    '',
  ])
  const lines = [
    `source ${source}: ${comparedText(end, (commit) => commit)}`,
    '',
    ...(problems.length > 0 ? [...problems, ''] : []),
    ...groups,
    ...endSentences(end),
  ]
  return lines.map((line) => `${printable(line)}\n`).join('')
}

function objectLines(object: PreviewedObject): readonly string[] {
  const place = placeText(object)
  return [
    `  ${objectText(object)}${place === '' ? '' : `  ${place}`}`,
    ...remarks(object).map((text) => `    ${text}`),
    ...fieldLines(object).map(({ sign, text }) => `    ${sign === '' ? text : `${sign} ${text}`}`),
  ]
}
