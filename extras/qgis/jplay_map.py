"""Class maps by ``jplay map``, as an algorithm of QGIS Processing.

Copy this file into the folder of Processing scripts (Processing Toolbox, Scripts, Add Script to
Toolbox). It calls the command ``jplay``, which may be installed in any Python environment: QGIS
and jplay need not share one.
"""

import json
import os
import subprocess

from qgis.core import (
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterFile,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
)

RESULTS = {
    "CONFIDENCE": ("--confidence", "Confidence"),
    "PROBABILITIES": ("--probabilities", "Probability of every class"),
    "SECOND": ("--second", "Second-best class"),
}


def command_line(executable, source, model, output, threshold=None, resample=False, results=None):
    """The command that makes a map, as a list of arguments."""
    command = [executable, "map", source, "--model", model, "--output", output]
    if threshold:
        command += ["--threshold", f"{threshold:g}"]
    if resample:
        command.append("--resample")
    for option, path in (results or {}).items():
        command += [option, path]
    return [*command, "--force", "--json"]


def environment():
    """Variables for the command, without those that tie it to the Python of QGIS."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


class JPlayMap(QgsProcessingAlgorithm):
    """Classify every pixel of an image with a model that ``jplay fit`` wrote."""

    def createInstance(self):
        return JPlayMap()

    def name(self):
        return "jplaymap"

    def displayName(self):
        return "Class map (jplay)"

    def group(self):
        return "jplay"

    def groupId(self):
        return "jplay"

    def shortHelpString(self):
        return (
            "Classifies every pixel of an image with a model that jplay fit wrote. The map comes "
            "with colours and class names. Pixels whose class is less likely than the threshold "
            "stay unclassified."
        )

    def initAlgorithm(self, configuration=None):
        self.addParameter(QgsProcessingParameterRasterLayer("INPUT", "Image"))
        self.addParameter(
            QgsProcessingParameterFile("MODEL", "Model", fileFilter="Models (*.skops)")
        )
        self.addParameter(
            QgsProcessingParameterNumber(
                "THRESHOLD",
                "Smallest probability of a class",
                type=QgsProcessingParameterNumber.Double,
                defaultValue=0.0,
                minValue=0.0,
                maxValue=1.0,
            )
        )
        self.addParameter(
            QgsProcessingParameterBoolean(
                "RESAMPLE", "Interpolate spectra to the model's wavelengths", defaultValue=False
            )
        )
        self.addParameter(
            QgsProcessingParameterString(
                "EXECUTABLE", "Command", defaultValue=os.environ.get("JPLAY_COMMAND", "jplay")
            )
        )
        self.addParameter(QgsProcessingParameterRasterDestination("OUTPUT", "Class map"))
        for name, (_, title) in RESULTS.items():
            self.addParameter(
                QgsProcessingParameterRasterDestination(
                    name, title, optional=True, createByDefault=False
                )
            )

    def processAlgorithm(self, parameters, context, feedback):
        layer = self.parameterAsRasterLayer(parameters, "INPUT", context)
        output = self.parameterAsOutputLayer(parameters, "OUTPUT", context)
        wanted = {
            name: self.parameterAsOutputLayer(parameters, name, context)
            for name in RESULTS
            if parameters.get(name)
        }
        command = command_line(
            self.parameterAsString(parameters, "EXECUTABLE", context),
            layer.source(),
            self.parameterAsFile(parameters, "MODEL", context),
            output,
            threshold=self.parameterAsDouble(parameters, "THRESHOLD", context),
            resample=self.parameterAsBool(parameters, "RESAMPLE", context),
            results={RESULTS[name][0]: path for name, path in wanted.items()},
        )
        feedback.pushCommandInfo(" ".join(command))
        told = json.loads(run(command, feedback))
        feedback.pushInfo(
            f"{told['height']} x {told['width']} pixels, classes: {', '.join(told['classes'])}"
        )
        return {"OUTPUT": output, **wanted}


def run(command, feedback):
    """What a command prints; its one line on a mistake becomes the error of the algorithm."""
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment(),
        )
    except OSError as error:
        raise QgsProcessingException(
            f"'{command[0]}' cannot be started ({error}). Give the full path of the command jplay."
        ) from error
    while True:
        try:
            printed, complaints = process.communicate(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            if feedback.isCanceled():
                process.terminate()
                process.communicate()
                raise QgsProcessingException("Cancelled.") from None
    if process.returncode:
        lines = complaints.strip().splitlines() or ["The command failed."]
        raise QgsProcessingException(lines[-1])
    return printed
