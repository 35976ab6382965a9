import type { Field } from '../../../../proto/gen/gitops_drift_pb.ts'
import type { PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'

/** A line about a field, with what begins it: `-` and `+` are values before and after the change. */
export interface FieldLine {
  readonly sign: '-' | '+' | ''
  readonly text: string
}

/** Returns the lines about the fields of an object, without values that are not there. */
export function fieldLines(object: PreviewedObject): readonly FieldLine[] {
  const { action, field, more, ignored, moreIgnored } = object
  return [
    ...field.flatMap((one) => (action === 'drifted' ? driftedLines(one) : changedLines(one))),
    ...(more > 0 ? [plain(`and ${more} more`)] : []),
    ...ignored.flatMap(changedLines),
    ...(moreIgnored > 0 ? [plain(`and ${moreIgnored} more that a rule leaves to others`)] : []),
  ]
}

function changedLines(field: Field): readonly FieldLine[] {
  const { before, after } = field
  return [
    plain(fieldText(field)),
    ...(before === undefined ? [] : [{ sign: '-' as const, text: before }]),
    ...(after === undefined ? [] : [{ sign: '+' as const, text: after }]),
  ]
}

/** Values of drift are no change: their lines say whose they are. */
function driftedLines(field: Field): readonly FieldLine[] {
  const { before, after } = field
  return [
    plain(fieldText(field)),
    ...(before === undefined ? [] : [plain(`  Git:     ${before}`)]),
    ...(after === undefined ? [] : [plain(`  cluster: ${after}`)]),
  ]
}

function fieldText({ path, kind, secretKey, manager, operation, rule }: Field): string {
  const name = [path === '' ? 'the object' : path, secretKey].filter((part) => part !== '').join(' ')
  const order = kind === 'reordered' ? ', in another order' : ''
  const by = manager === '' ? '' : `, by ${manager} (${operation})`
  return `${name}${order}${by}${rule === '' ? '' : `; left to others: ${rule}`}`
}

function plain(text: string): FieldLine {
  return { sign: '', text }
}
