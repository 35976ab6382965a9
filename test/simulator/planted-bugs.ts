/**
 * Mistakes that the invariants must find. They are made in the simulator's own parts: the code under test has no
 * switch for them.
 */
export const plantedBugs = {
  /** a row that is known is never fetched again, whatever was missed */
  'pull-dropped': 'SimulatedGossip.pull',
  /** a replica that starts again takes itself for the one that was there before under its name */
  'instance-ignored': 'SimulatedGossip.instance',
  /** who loses the connection to a replica takes the agents out of its row, in its name */
  'two-writers': 'SimulatedGossip.publish',
  /** a replica that is asked for an agent that it does not hold asks the next one */
  'holder-forwards': 'SimulatedReplica',
  /** calls that must not be repeated are delivered as if they were safe */
  'unsafe-replayed': 'SimulatedReplica',
} as const

export type PlantedBug = keyof typeof plantedBugs

export function isPlantedBug(name: string): name is PlantedBug {
  return Object.hasOwn(plantedBugs, name)
}
