import type { LabelSelector } from '../projection/projector.ts'
import type { ObjectRecord } from './record.ts'

type Labels = ObjectRecord['labels']

/** @returns whether labels are selected */
export type Selects = (labels: Labels) => boolean

/** As Kubernetes has it: all that it says must hold, so an empty one selects all. */
export function compileSelector({ labels, expressions }: LabelSelector): Selects {
  const holds = expressions.map(compileExpression)
  return (of) => labels.every(([name, value]) => of.get(name) === value) && holds.every((one) => one(of))
}

function compileExpression({ key, operator, values }: LabelSelector['expressions'][number]): Selects {
  const listed: ReadonlySet<string | undefined> = new Set(values)
  switch (operator) {
    case 'In':
      return (of) => listed.has(of.get(key))
    case 'NotIn':
      return (of) => !listed.has(of.get(key))
    case 'Exists':
      return (of) => of.has(key)
    case 'DoesNotExist':
      return (of) => !of.has(key)
    default:
      return () => false
  }
}
