//! The dictionary: a file's descriptions of its classes, before their first structures.

/// A class that we write: its name, its number in our files, its fields and their types.
pub(crate) struct Described {
    pub name: &'static str,
    pub number: u8,
    pub fields: &'static [(&'static str, &'static str)],
}

pub(crate) const FRAME_HEADER: Described = Described {
    name: "FrameH",
    number: 3,
    fields: &[
        ("name", "STRING"),
        ("run", "INT_4S"),
        ("frame", "INT_4U"),
        ("dataQuality", "INT_4U"),
        ("GTimeS", "INT_4U"),
        ("GTimeN", "INT_4U"),
        ("ULeapS", "INT_2U"),
        ("dt", "REAL_8"),
        ("type", "PTR_STRUCT(FrVect *)"),
        ("user", "PTR_STRUCT(FrVect *)"),
        ("detectSim", "PTR_STRUCT(FrDetector *)"),
        ("detectProc", "PTR_STRUCT(FrDetector *)"),
        ("history", "PTR_STRUCT(FrHistory *)"),
        ("rawData", "PTR_STRUCT(FrRawData *)"),
        ("procData", "PTR_STRUCT(FrProcData *)"),
        ("simData", "PTR_STRUCT(FrSimData *)"),
        ("event", "PTR_STRUCT(FrEvent *)"),
        ("simEvent", "PTR_STRUCT(FrSimEvent *)"),
        ("summaryData", "PTR_STRUCT(FrSummary *)"),
        ("auxData", "PTR_STRUCT(FrVect *)"),
        ("auxTable", "PTR_STRUCT(FrTable *)"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_HISTORY: Described = Described {
    name: "FrHistory",
    number: 4,
    fields: &[
        ("name", "STRING"),
        ("time", "INT_4U"),
        ("comment", "STRING"),
        ("next", "PTR_STRUCT(FrHistory *)"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_RAW_DATA: Described = Described {
    name: "FrRawData",
    number: 5,
    fields: &[
        ("name", "STRING"),
        ("firstSer", "PTR_STRUCT(FrSerData *)"),
        ("firstAdc", "PTR_STRUCT(FrAdcData *)"),
        ("firstTable", "PTR_STRUCT(FrTable *)"),
        ("logMsg", "PTR_STRUCT(FrMsg *)"),
        ("more", "PTR_STRUCT(FrVect *)"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_ADC_DATA: Described = Described {
    name: "FrAdcData",
    number: 6,
    fields: &[
        ("name", "STRING"),
        ("comment", "STRING"),
        ("channelGroup", "INT_4U"),
        ("channelNumber", "INT_4U"),
        ("nBits", "INT_4U"),
        ("bias", "REAL_4"),
        ("slope", "REAL_4"),
        ("units", "STRING"),
        ("sampleRate", "REAL_8"),
        ("timeOffset", "REAL_8"),
        ("fShift", "REAL_8"),
        ("phase", "REAL_4"),
        ("dataValid", "INT_2U"),
        ("data", "PTR_STRUCT(FrVect *)"),
        ("aux", "PTR_STRUCT(FrVect *)"),
        ("next", "PTR_STRUCT(FrAdcData *)"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_PROC_DATA: Described = Described {
    name: "FrProcData",
    number: 7,
    fields: &[
        ("name", "STRING"),
        ("comment", "STRING"),
        ("type", "INT_2U"),
        ("subType", "INT_2U"),
        ("timeOffset", "REAL_8"),
        ("tRange", "REAL_8"),
        ("fShift", "REAL_8"),
        ("phase", "REAL_4"),
        ("fRange", "REAL_8"),
        ("BW", "REAL_8"),
        ("nAuxParam", "INT_2U"),
        ("auxParam", "REAL_8[nAuxParam]"),
        ("auxParamNames", "STRING[nAuxParam]"),
        ("data", "PTR_STRUCT(FrVect *)"),
        ("aux", "PTR_STRUCT(FrVect *)"),
        ("table", "PTR_STRUCT(FrTable *)"),
        ("history", "PTR_STRUCT(FrHistory *)"),
        ("next", "PTR_STRUCT(FrProcData *)"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_VECT: Described = Described {
    name: "FrVect",
    number: 8,
    fields: &[
        ("name", "STRING"),
        ("compress", "INT_2U"),
        ("type", "INT_2U"),
        ("nData", "INT_8U"),
        ("nBytes", "INT_8U"),
        ("data", "CHAR[nBytes]"),
        ("nDim", "INT_4U"),
        ("nx", "INT_8U[nDim]"),
        ("dx", "REAL_8[nDim]"),
        ("startX", "REAL_8[nDim]"),
        ("unitX", "STRING[nDim]"),
        ("unitY", "STRING"),
        ("next", "PTR_STRUCT(FrVect *)"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_END_OF_FRAME: Described = Described {
    name: "FrEndOfFrame",
    number: 9,
    fields: &[
        ("run", "INT_4S"),
        ("frame", "INT_4U"),
        ("GTimeS", "INT_4U"),
        ("GTimeN", "INT_4U"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_TOC: Described = Described {
    name: "FrTOC",
    number: 10,
    fields: &[
        ("ULeapS", "INT_2S"),
        ("nFrame", "INT_4U"),
        ("dataQuality", "INT_4U[nFrame]"),
        ("GTimeS", "INT_4U[nFrame]"),
        ("GTimeN", "INT_4U[nFrame]"),
        ("dt", "REAL_8[nFrame]"),
        ("runs", "INT_4S[nFrame]"),
        ("frame", "INT_4U[nFrame]"),
        ("positionH", "INT_8U[nFrame]"),
        ("nFirstADC", "INT_8U[nFrame]"),
        ("nFirstSer", "INT_8U[nFrame]"),
        ("nFirstTable", "INT_8U[nFrame]"),
        ("nFirstMsg", "INT_8U[nFrame]"),
        ("nSH", "INT_4U"),
        ("SHid", "INT_2U[nSH]"),
        ("SHname", "STRING[nSH]"),
        ("nDetector", "INT_4U"),
        ("nameDetector", "STRING[nDetector]"),
        ("positionDetector", "INT_8U[nDetector]"),
        ("nStatType", "INT_4U"),
        ("nameStat", "STRING[nStatType]"),
        ("detector", "STRING[nStatType]"),
        ("nStatInstance", "INT_4U[nStatType]"),
        ("nTotalStat", "INT_4U"),
        ("tStart", "INT_4U[nTotalStat]"),
        ("tEnd", "INT_4U[nTotalStat]"),
        ("version", "INT_4U[nTotalStat]"),
        ("positionStat", "INT_8U[nTotalStat]"),
        ("nADC", "INT_4U"),
        ("name", "STRING[nADC]"),
        ("channelID", "INT_4U[nADC]"),
        ("groupID", "INT_4U[nADC]"),
        ("positionADC", "INT_8U[nADC][nFrame]"),
        ("nProc", "INT_4U"),
        ("nameProc", "STRING[nProc]"),
        ("positionProc", "INT_8U[nProc][nFrame]"),
        ("nSim", "INT_4U"),
        ("nameSim", "STRING[nSim]"),
        ("positionSim", "INT_8U[nSim][nFrame]"),
        ("nSer", "INT_4U"),
        ("nameSer", "STRING[nSer]"),
        ("positionSer", "INT_8U[nSer][nFrame]"),
        ("nSummary", "INT_4U"),
        ("nameSum", "STRING[nSummary]"),
        ("positionSum", "INT_8U[nSummary][nFrame]"),
        ("nEventType", "INT_4U"),
        ("nameEvent", "STRING[nEventType]"),
        ("nEvent", "INT_4U[nEventType]"),
        ("nTotalEvent", "INT_4U"),
        ("GTimeSEvent", "INT_4U[nTotalEvent]"),
        ("GTimeNEvent", "INT_4U[nTotalEvent]"),
        ("amplitudeEvent", "REAL_4[nTotalEvent]"),
        ("positionEvent", "INT_8U[nTotalEvent]"),
        ("nSimEventType", "INT_4U"),
        ("nameSimEvent", "STRING[nSimEventType]"),
        ("nSimEvent", "INT_4U[nSimEventType]"),
        ("nTotalSEvent", "INT_4U"),
        ("GTimeSSim", "INT_4U[nTotalSEvent]"),
        ("GTimeNSim", "INT_4U[nTotalSEvent]"),
        ("amplitudeSimEvent", "REAL_4[nTotalSEvent]"),
        ("positionSimEvent", "INT_8U[nTotalSEvent]"),
        ("chkSum", "INT_4U"),
    ],
};

pub(crate) const FR_END_OF_FILE: Described = Described {
    name: "FrEndOfFile",
    number: 11,
    fields: &[
        ("nFrames", "INT_4U"),
        ("nBytes", "INT_8U"),
        ("seekTOC", "INT_8U"),
        ("chkSumFrHeader", "INT_4U"),
        ("chkSum", "INT_4U"),
        ("chkSumFile", "INT_4U"),
    ],
};

/// Every class that we write, in order of number.
pub(crate) const ALL: [&Described; 9] = [
    &FRAME_HEADER,
    &FR_HISTORY,
    &FR_RAW_DATA,
    &FR_ADC_DATA,
    &FR_PROC_DATA,
    &FR_VECT,
    &FR_END_OF_FRAME,
    &FR_TOC,
    &FR_END_OF_FILE,
];

/// The class number of FrSH, which names a class, in every file.
pub(crate) const FR_SH: u8 = 1;
/// The class number of FrSE, which describes a field, in every file.
pub(crate) const FR_SE: u8 = 2;
