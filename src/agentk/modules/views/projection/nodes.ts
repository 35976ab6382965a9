import { at, textAt } from '../../../../kubernetes/object.ts'
import type { Projector } from './projector.ts'

export const node: Projector = (object) => ({
  facts: [
    textAt(object, 'status.nodeInfo.kubeletVersion'),
    at(object, 'spec.unschedulable') === true ? 'cordoned' : '',
  ],
})
